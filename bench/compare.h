/* SPDX-License-Identifier: MIT */
/* Compares the pool with its bare rings: throughput, processor time and context switches per task, and whether they
 * meet the goals. */
#ifndef BENCH_COMPARE_H
#define BENCH_COMPARE_H

#include <stddef.h>
#include <stdint.h>

struct comparison {
	size_t payload; /* bytes of each task */
	uint64_t tasks; /* in each run */
	int pairs;      /* runs of the pool, each followed by a run of the rings */
	/* One whole run of the pool, including start and end of the workers. */
	void (*run_pool)(void *context, int workers);
	void *context;
};

/* Runs the pairs for 1, 2, 4 and 8 workers and prints a table. */
void compare_print(const struct comparison *c);

#endif
