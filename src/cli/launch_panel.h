/* SPDX-License-Identifier: MIT */
/* The live panel of gpuq launch: what the launcher tells, put into a model and drawn. */
#ifndef CLI_LAUNCH_PANEL_H
#define CLI_LAUNCH_PANEL_H

#include <stddef.h>

#include "gpu_dispatch_launch.h"

struct launch_panel;

/*
 * On a terminal. Until it is destroyed, what is printed on standard output and error,
 * by workers too, appears above it. NULL: there can be none.
 */
struct launch_panel *launch_panel_create(int fd);
void launch_panel_draw(struct launch_panel *p, const struct gd_launch_progress *progress);
/* Whole lines, above the panel. */
void launch_panel_print(struct launch_panel *p, const char *lines, size_t size);
/* The last picture stays. NULL is fine. */
void launch_panel_destroy(struct launch_panel *p);

#endif
