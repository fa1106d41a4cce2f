/* SPDX-License-Identifier: MIT */
/* Whether somebody still writes a file of a live folder. */
#ifndef LAUNCH_BEING_WRITTEN_H
#define LAUNCH_BEING_WRITTEN_H

#include <stdbool.h>
#include <sys/stat.h>

/*
 * The kernel tells whether a file of ours is open for writing. Of other users' files, and on file systems without
 * leases, only the time of the last change is known: such a file counts as being written for two seconds after it. fd
 * may be one of O_PATH.
 */
bool being_written(int fd, const struct stat *st);

#endif
