/* SPDX-License-Identifier: MIT */
/* How long gpuq top takes to draw a screen after one of many jobs has changed. Prints one JSON object. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "view/top/top.h"

#define ROUNDS 50

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

static int put(struct view_model *m, uint64_t id, enum view_job_state state)
{
	static const int gpus[] = {0, 1, 2, 3, 4, 5, 6, 7};
	static int64_t changes; /* each change must differ from the last */
	char command[64];
	struct view_attempt a = {.start_ms = (int64_t)id * 1000,
		.end_ms = (int64_t)id * 1000 + 500,
		.duration_ms = 500,
		.peak_mem_mb = (int64_t)(id % 4000),
		.energy_j = -1,
		.state = state,
		.gpus = &gpus[id % 8],
		.num_gpus = 1};
	snprintf(command, sizeof(command), "python train.py --seed %llu", (unsigned long long)id);
	struct view_job j = {.id = id,
		.command = command,
		.state = state,
		.mem_mb = -1,
		.attempts = &a,
		.num_attempts = 1,
		.submit_ms = changes++};
	return view_put_job(m, &j);
}

/* Milliseconds: the 90th percentile. */
static double measure(struct view_model *m, enum view_order order, const char *filter, uint64_t jobs)
{
	struct top t;
	struct screen s = {0};
	uint64_t times[ROUNDS];
	top_init(&t, m);
	t.order = order;
	snprintf(t.filter, sizeof(t.filter), "%s", filter);
	for (int i = 0; i < ROUNDS; i++) {
		if (put(m, jobs / 2 + (uint64_t)i, i % 2 ? VIEW_JOB_FAILED : VIEW_JOB_COMPLETED) < 0)
			exit(1);
		uint64_t start = clock_now_ns();
		if (top_draw(&t, &s, 60, 200, 0, start) < 0)
			exit(1);
		times[i] = clock_now_ns() - start;
	}
	qsort(times, ROUNDS, sizeof(*times), by_value);
	top_finish(&t);
	screen_finish(&s);
	return (double)times[ROUNDS * 9 / 10] / 1e6;
}

int main(int argc, char **argv)
{
	uint64_t jobs = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
	struct view_model *m = view_model_create(0);
	if (!m)
		return 1;
	for (uint64_t id = 1; id <= jobs; id++)
		if (put(m, id, id % 50 ? VIEW_JOB_COMPLETED : VIEW_JOB_FAILED) < 0)
			return 1;
	double by_state = measure(m, VIEW_BY_STATE, "", jobs), by_time = measure(m, VIEW_BY_DURATION, "", jobs);
	double by_name = measure(m, VIEW_BY_NAME, "", jobs), filtered = measure(m, VIEW_BY_STATE, "seed 77", jobs);
	printf("{\"jobs\": %llu, \"by_state_ms\": %.2f, \"by_time_ms\": %.2f, \"by_name_ms\": %.2f, "
	       "\"filtered_ms\": %.2f}\n",
		(unsigned long long)jobs, by_state, by_time, by_name, filtered);
	view_model_destroy(m);
	return 0;
}
