/* SPDX-License-Identifier: MIT */
/* Finding files: what there is beyond gd_files_find(). */
#ifndef LAUNCH_FIND_H
#define LAUNCH_FIND_H

#include "gpu_dispatch_launch.h"

/* -EINVAL and why, for a pattern that can match no name. */
int find_check_pattern(const char *pattern, struct gd_error *err);

/*
 * NULL, or why this entry of a folder is no input: a link of another user to a file of ours, which may not be his to
 * read: the results would tell him. Root can read what is anybody's. His links to folders are not followed at all: what
 * is below them can be ours.
 */
const char *find_link_objection(int folder_fd, const char *name);

#endif
