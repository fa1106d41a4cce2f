/* SPDX-License-Identifier: MIT */
/* What a run took: time on the clock, time on the processors, context switches. */
#ifndef BENCH_USAGE_H
#define BENCH_USAGE_H

#include <stdint.h>

struct usage {
	double wall_ns;
	double cpu_ns;   /* of this process and of its children */
	double switches; /* of the same, voluntary or not */
};

/*
 * The totals so far. Children count from the moment they have been waited for,
 * with everything that they had waited for themselves: measure whole runs.
 */
struct usage usage_now(void);

/* From `start` until now, per task. */
struct usage usage_per_task(struct usage start, uint64_t tasks);

#endif
