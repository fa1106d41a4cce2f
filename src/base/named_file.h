/* SPDX-License-Identifier: MIT */
/* A file that the user has named for output. */
#ifndef BASE_NAMED_FILE_H
#define BASE_NAMED_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "gpu_dispatch.h"

/*
 * Opens the file for writing. Creates a missing file; does not truncate. Follows symbolic links of the user and root
 * only (else -EPERM), because links of others could lead to any file of this user. -EPERM also for a link
 * that another user may have moved there, and for a file that belongs to another user or that others can write: they
 * could change its contents afterwards. Does not wait for the reader of a pipe: -ENXIO.
 */
int named_file_open(const char *path, int *ret_fd, struct gd_error *err);

/*
 * Opens a pipe or a device for writing. -EPERM: it is a pipe of another user, who could make this process wait forever,
 * a link of another user, or a regular file in the meantime. -ENXIO: the pipe has no reader.
 */
int named_file_open_special(const char *path, int *ret_fd, struct gd_error *err);

/* Whether it is a pipe with a name that belongs to another user, who could make this process wait forever. */
bool named_file_is_pipe_of_others(int fd, const struct stat *st);

#endif
