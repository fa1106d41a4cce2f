/* SPDX-License-Identifier: MIT */
/*
 * The user's directory for data that does not belong to a queue: $XDG_STATE_HOME/gpuq, by default ~/.local/state/gpuq.
 */
#ifndef BASE_STATE_DIR_H
#define BASE_STATE_DIR_H

#include <limits.h>
#include <stdbool.h>

#include "gpu_dispatch.h"

/*
 * Opens the directory with O_PATH. It must belong to the effective user, and no other user may be able to write or
 * replace it; otherwise -EPERM. make: creates missing directories, accessible only by the user, but never in a
 * directory of another user, such as the home of the user who runs sudo. -ENOENT: the directory is missing, or neither
 * $XDG_STATE_HOME nor $HOME is set.
 */
int state_dir_open(bool make, int *ret_fd);

/*
 * The same for its subdirectory HOST, the name of this host, for data that belongs to this machine only: several
 * machines can share a home. state_dir_host_path(): -ENOENT if neither variable is set.
 */
int state_dir_open_host(bool make, int *ret_fd);
int state_dir_host_path(char ret[PATH_MAX]);
/* Why state_dir_open_host() returned -EPERM, for messages: "'/home/ana' can be written by its group". */
void state_dir_explain_host(struct gd_error *ret);

/*
 * Opens a folder in HOST for reading. It must belong to the effective user, and no other user may be able to write it;
 * otherwise -EPERM.
 */
int state_dir_open_part(const char *name, bool make, int *ret_fd);

#endif
