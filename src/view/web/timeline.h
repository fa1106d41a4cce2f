/* SPDX-License-Identifier: MIT */
/*
 * The data of the timeline chart: bars on the GPUs, and ends per time slice. Bars that would be narrower than a pixel
 * or two are joined, so that 100,000 jobs give a chart of the same size as ten.
 */
#ifndef VIEW_WEB_TIMELINE_H
#define VIEW_WEB_TIMELINE_H

#include "view/model/model.h"

#define TIMELINE_BINS  60
#define TIMELINE_LANES 6 /* concurrent jobs on one GPU that get their own rows */

struct timeline_bar {
	int gpu, lane;
	int64_t start_ms, end_ms; /* end -1: running */
	uint64_t id;              /* of the job; of joined jobs, the last one */
	unsigned count, failed;   /* number of joined attempts, and of failed ones among them */
	enum view_job_state state;
};

struct timeline_bin {
	unsigned completed, failed, cancelled;
};

struct timeline {
	int64_t from_ms, to_ms;
	struct timeline_bar *bars; /* by GPU, lane, start */
	size_t num_bars;
	/* Slices of bin_ms from bins_from_ms on, which is a multiple of bin_ms, so that the slices stay fixed as time
	 * passes. */
	int64_t bins_from_ms, bin_ms;
	struct timeline_bin bins[TIMELINE_BINS];
};

/* The attempts in [from, to]. Adjacent bars shorter than `grain_ms` are joined. 0 or -ENOMEM. */
int timeline_build(const struct view_model *m, int64_t from_ms, int64_t to_ms, int64_t grain_ms, struct timeline *ret);
void timeline_finish(struct timeline *t);

#endif
