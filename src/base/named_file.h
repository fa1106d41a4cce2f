/* SPDX-License-Identifier: MIT */
/* A file that the user has named for output. */
#ifndef BASE_NAMED_FILE_H
#define BASE_NAMED_FILE_H

#include "gpu_dispatch.h"

/*
 * Opens the file for writing. Creates a missing file, truncates nothing. Symbolic links of the user and root are
 * followed; another user could lead to any file of this user: -EPERM. A pipe that nobody reads is not waited for:
 * -ENXIO.
 */
int named_file_open(const char *path, int *ret_fd, struct gd_error *err);

/*
 * Opens a pipe or a device for writing. -EPERM: it is a pipe that another user has made, who could make this process
 * wait forever, or a link of another user, or a regular file now. -ENXIO: nobody reads from the pipe.
 */
int named_file_open_special(const char *path, int *ret_fd, struct gd_error *err);

#endif
