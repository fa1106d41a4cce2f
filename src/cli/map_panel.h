/* SPDX-License-Identifier: MIT */
/* The progress of gpuq map in a panel. */
#ifndef CLI_MAP_PANEL_H
#define CLI_MAP_PANEL_H

#include "cli/pool_panel.h"
#include "launch/map.h"

void map_panel_draw(struct pool_panel *p, const struct map_progress *progress);

#endif
