/* SPDX-License-Identifier: MIT */
/* The output of gpuq-launch during a run. */
#ifndef CLI_LAUNCH_VIEW_H
#define CLI_LAUNCH_VIEW_H

#include "cli/pool_view.h"
#include "gpu_dispatch_launch.h"

void launch_view_progress(struct pool_view *v, const struct gd_launch_progress *p);
void launch_view_result(struct pool_view *v, const struct gd_file_result *r);

#endif
