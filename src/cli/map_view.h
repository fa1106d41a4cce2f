/* SPDX-License-Identifier: MIT */
/* The output of gpuq-map during a run. */
#ifndef CLI_MAP_VIEW_H
#define CLI_MAP_VIEW_H

#include "cli/pool_view.h"
#include "cli/terminal_filter.h"
#include "launch/map.h"

struct map_view {
	struct pool_view pool;
	const struct map_options *options;
	struct terminal_filter filter; /* if there is no panel */
	unsigned long long failures;   /* printed so far */
};

/* Call before the workers start: their output goes above the panel, or through the filter. */
void map_view_start(struct map_view *v);
void map_view_end(struct map_view *v, const struct map_summary *summary);
void map_view_progress(struct map_view *v, const struct map_progress *p);
void map_view_failure(struct map_view *v, uint64_t number, const char *reason);

#endif
