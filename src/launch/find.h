/* SPDX-License-Identifier: MIT */
/* Finding files: what there is beyond gd_files_find(). */
#ifndef LAUNCH_FIND_H
#define LAUNCH_FIND_H

#include "gpu_dispatch_launch.h"

/* -EINVAL and why, for a pattern that can match no name. */
int find_check_pattern(const char *pattern, struct gd_error *err);

#endif
