/* SPDX-License-Identifier: MIT */
/* What gpuq-launch shows during a run: a panel, or, where a panel is not possible, a line now and then. */
#ifndef CLI_LAUNCH_VIEW_H
#define CLI_LAUNCH_VIEW_H

#include <stdbool.h>
#include <stdio.h>

#include "gpu_dispatch_launch.h"

struct launch_view {
	FILE *out;
	bool live;                  /* a panel is possible */
	struct launch_panel *panel; /* NULL: none */
	bool told_stop;             /* the message about Ctrl-C was printed */
	double next_seconds;
};

void launch_view_begin(struct launch_view *v, FILE *out);
/* Workers run from here on. */
void launch_view_start(struct launch_view *v);
void launch_view_progress(struct launch_view *v, const struct gd_launch_progress *p);
void launch_view_result(struct launch_view *v, const struct gd_file_result *r);
void launch_view_warning(struct launch_view *v, const char *words);
void launch_view_end(struct launch_view *v);

#endif
