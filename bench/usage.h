/* SPDX-License-Identifier: MIT */
/* The cost of a run: wall clock time, processor time, context switches. */
#ifndef BENCH_USAGE_H
#define BENCH_USAGE_H

#include <stdint.h>

struct usage {
	double wall_ns;
	double cpu_ns;   /* of this process and of its children */
	double switches; /* likewise, voluntary and involuntary */
};

/*
 * The totals so far. Children count only after they have been waited for, including their own waited-for children, so
 * measure whole runs.
 */
struct usage usage_now(void);

/* From `start` until now, per task. */
struct usage usage_per_task(struct usage start, uint64_t tasks);

#endif
