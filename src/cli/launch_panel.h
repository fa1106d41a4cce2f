/* SPDX-License-Identifier: MIT */
/* The progress of gpuq launch in a panel. */
#ifndef CLI_LAUNCH_PANEL_H
#define CLI_LAUNCH_PANEL_H

#include "cli/pool_panel.h"
#include "gpu_dispatch_launch.h"

void launch_panel_draw(struct pool_panel *p, const struct gd_launch_progress *progress);

#endif
