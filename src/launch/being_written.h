/* SPDX-License-Identifier: MIT */
/* Whether a file of a watched folder is still being written. */
#ifndef LAUNCH_BEING_WRITTEN_H
#define LAUNCH_BEING_WRITTEN_H

#include <stdbool.h>
#include <sys/stat.h>

/*
 * For our own files, the kernel reports whether they are open for writing. For other users' files, and on file systems
 * without leases, only the time of the last change is known: such a file counts as being written until two seconds
 * after that change. fd may be opened with O_PATH.
 */
bool being_written(int fd, const struct stat *st);

#endif
