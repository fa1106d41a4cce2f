/* SPDX-License-Identifier: MIT */
#include "compare.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "bare.h"
#include "usage.h"

#define PAIRS_MAX       25
#define GOAL_THROUGHPUT 0.5 /* at least this fraction of the rings' throughput, with 1 and 2 workers */
#define GOAL_CPU        2.5 /* at most this multiple of the rings' CPU time, with any number of workers */

enum figure { RATE, CPU, SWITCHES, NUM_FIGURES };

/* For each figure: the median of the runs, and the median of the ratios of each pair. */
struct medians {
	double pool[NUM_FIGURES];
	double rings[NUM_FIGURES];
	double ratio[NUM_FIGURES];
};

static void note(double into[NUM_FIGURES][PAIRS_MAX], int pair, struct usage per_task)
{
	into[RATE][pair] = 1e9 / per_task.wall_ns;
	into[CPU][pair] = per_task.cpu_ns;
	into[SWITCHES][pair] = per_task.switches * 1000;
}

static struct medians measure(const struct comparison *c, int workers)
{
	double pool[NUM_FIGURES][PAIRS_MAX], rings[NUM_FIGURES][PAIRS_MAX], ratio[PAIRS_MAX];
	int pairs = c->pairs < PAIRS_MAX ? c->pairs : PAIRS_MAX;
	for (int i = 0; i < pairs; i++) {
		struct usage start = usage_now();
		c->run_pool(c->context, workers);
		note(pool, i, usage_per_task(start, c->tasks));
		start = usage_now();
		bare_rings(workers, c->payload, c->tasks);
		note(rings, i, usage_per_task(start, c->tasks));
	}
	struct medians m;
	for (int f = 0; f < NUM_FIGURES; f++) {
		for (int i = 0; i < pairs; i++)
			ratio[i] = pool[f][i] / rings[f][i];
		m.ratio[f] = percentile(ratio, (size_t)pairs, 0.5);
		m.pool[f] = percentile(pool[f], (size_t)pairs, 0.5);
		m.rings[f] = percentile(rings[f], (size_t)pairs, 0.5);
	}
	return m;
}

static const char *verdict(bool met)
{
	return met ? "met" : "MISSED";
}

static void print_row(int workers, const struct medians *m)
{
	bool has_rate_goal = workers <= 2;
	printf("%7d | %8.2f %8.2f %6.2f %-6s | %7.0f %7.0f %6.2f %-6s | %8.2f %8.2f\n", workers, m->pool[RATE] / 1e6,
		m->rings[RATE] / 1e6, m->ratio[RATE], has_rate_goal ? verdict(m->ratio[RATE] >= GOAL_THROUGHPUT) : "",
		m->pool[CPU], m->rings[CPU], m->ratio[CPU], verdict(m->ratio[CPU] <= GOAL_CPU), m->pool[SWITCHES],
		m->rings[SWITCHES]);
	fflush(stdout);
}

void compare_print(const struct comparison *c)
{
	printf("No-op tasks of %zu bytes, there and back: the pool, and the same traffic over its bare rings\n"
	       "(the same ring code and as many worker processes, but no task table, callbacks, checks or timeouts).\n"
	       "%d pairs of whole runs in turn, %llu tasks each, on %ld processors; medians of the runs and of the\n"
	       "ratios of each pair. Processor time and context switches are those of all processes of a run.\n\n",
		c->payload, c->pairs, (unsigned long long)c->tasks, sysconf(_SC_NPROCESSORS_ONLN));
	printf("        |   million tasks per second      |  processor time per task, ns  | switches/1000 tasks\n");
	printf("workers |     pool    rings  ratio goal   |    pool   rings  ratio goal   |     pool    rings\n");
	for (int workers = 1; workers <= 8; workers *= 2) {
		struct medians m = measure(c, workers);
		print_row(workers, &m);
	}
	printf("\ngoals: ratio of tasks per second at least %.2f with 1 and 2 workers; ratio of processor time at most %.2f\n",
		GOAL_THROUGHPUT, GOAL_CPU);
}
