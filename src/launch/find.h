/* SPDX-License-Identifier: MIT */
/* Finding files: what there is beyond gd_files_find(). */
#ifndef LAUNCH_FIND_H
#define LAUNCH_FIND_H

#include "gpu_dispatch_launch.h"

/* -EINVAL and why, for a pattern that can match no name. */
int find_check_pattern(const char *pattern, struct gd_error *err);

/*
 * NULL, or why this entry of a folder is not used as input. A link of another user to a file of ours is refused: he may
 * not be allowed to read that file, and the results would tell him. For root this holds for files of everybody. Links
 * of others to folders are never followed, because files of ours can be below them.
 */
const char *find_link_objection(int folder_fd, const char *name);

#endif
