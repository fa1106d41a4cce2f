/* SPDX-License-Identifier: MIT */
/*
 * The user's directory for what gpuq remembers apart from any queue: $XDG_STATE_HOME/gpuq, by default
 * ~/.local/state/gpuq.
 */
#ifndef BASE_STATE_DIR_H
#define BASE_STATE_DIR_H

#include <limits.h>
#include <stdbool.h>

/*
 * Opens it with O_PATH. It belongs to the effective user, and no other user can write it or put another directory in
 * its place; otherwise -EPERM. make: missing directories are made, for the user alone, but never in a directory of
 * another user, such as the home of the user who runs sudo. -ENOENT: it is missing, or neither variable names a home.
 */
int state_dir_open(bool make, int *ret_fd);

/*
 * The same for its directory HOST, for what belongs to this machine alone: a home can be shared by several. HOST is the
 * host's name. The path: -ENOENT where neither variable names a home.
 */
int state_dir_open_host(bool make, int *ret_fd);
int state_dir_host_path(char ret[PATH_MAX]);

/* A folder in HOST, for reading. It belongs to the effective user, and no other user can write it; otherwise -EPERM. */
int state_dir_open_part(const char *name, bool make, int *ret_fd);

#endif
