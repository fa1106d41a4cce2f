/* SPDX-License-Identifier: MIT */
/*
 * Estimates when the first waiting jobs of a queue will start, from how long similar jobs took
 * (schedule/run_times.h, schedule/expected_start.h). A GPU counts as one slot: jobs that share GPUs
 * start earlier than estimated.
 */
#ifndef QUEUE_RUNNER_FORECAST_H
#define QUEUE_RUNNER_FORECAST_H

#include "queue/journal/jobs.h"
#include "queue/schedule/expected_start.h"

struct forecast;

struct forecast_job {
	const struct job *job;
	bool waits;       /* it does not start now */
	unsigned blocked; /* GPUs that it does not get even if all jobs of the queue end */
};

/* `waiting`: jobs that can start, in their order; jobs beyond EXPECTED_START_MAX are ignored. 0 or -ENOMEM. */
int forecast_create(const struct jobs *jobs, const struct forecast_job *waiting, size_t count, unsigned num_gpus,
	int64_t now_ms, struct forecast **ret);
void forecast_destroy(struct forecast *f); /* NULL is allowed */

/* known is false for a job that was not in `waiting`. */
struct expected_start forecast_get(const struct forecast *f, const struct job *job);

#endif
