/* SPDX-License-Identifier: MIT */
#include "queue/runner/forecast.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"

/* Durations come from the newest jobs, at most this many: reading a long history takes too long. */
#define MOST_EARLIER 20000

struct forecast {
	struct forecast_job jobs[EXPECTED_START_MAX];
	struct expected_start starts[EXPECTED_START_MAX];
	size_t count;
};

static unsigned slots_of(const struct job *job)
{
	return job->wish->num_gpus < 0 ? 1 : (unsigned)job->wish->num_gpus;
}

static struct run_times *read_run_times(const struct jobs *js)
{
	struct run_times *times = run_times_create();
	size_t first = js->count > MOST_EARLIER ? js->count - MOST_EARLIER : 0;
	for (size_t i = first; times && i < js->count; i++)
		if (js->by_id[i]->attempts)
			run_times_add_job(times, js->by_id[i]);
	return times;
}

static int estimate(
	struct forecast *f, const struct jobs *js, const struct run_times *times, unsigned num_gpus, int64_t now_ms)
{
	cleanup_(freep) struct expected_job *running = calloc(js->counts[JOB_RUNNING] + 1, sizeof(*running));
	cleanup_(freep) struct expected_job *waiting = calloc(f->count + 1, sizeof(*waiting));
	size_t n = 0;
	if (!running || !waiting)
		return -ENOMEM;
	for (size_t i = 0; n < js->counts[JOB_RUNNING] && i < js->count; i++) {
		const struct job *job = js->by_id[i];
		if (job->state != JOB_RUNNING || !job->attempts)
			continue;
		int64_t elapsed = now_ms > job->attempts->start_ms ? now_ms - job->attempts->start_ms : 0;
		running[n++] = (struct expected_job){
			.slots = job->attempts->num_gpus, .duration = run_times_remaining(times, job, elapsed)};
	}
	for (size_t i = 0; i < f->count; i++)
		waiting[i] = (struct expected_job){.slots = slots_of(f->jobs[i].job),
			.duration = run_times_estimate(times, f->jobs[i].job),
			.waits = f->jobs[i].waits,
			.blocked = f->jobs[i].blocked};
	return expected_start(num_gpus, running, n, waiting, f->count, f->starts);
}

int forecast_create(const struct jobs *jobs, const struct forecast_job *waiting, size_t count, unsigned num_gpus,
	int64_t now_ms, struct forecast **ret)
{
	struct forecast *f = calloc(1, sizeof(*f));
	struct run_times *times = f ? read_run_times(jobs) : NULL;
	int r = times ? 0 : -ENOMEM;
	if (r == 0) {
		f->count = count < EXPECTED_START_MAX ? count : EXPECTED_START_MAX;
		for (size_t i = 0; i < f->count; i++)
			f->jobs[i] = waiting[i];
		r = estimate(f, jobs, times, num_gpus, now_ms);
	}
	run_times_destroy(times);
	if (r < 0) {
		free(f);
		return r;
	}
	*ret = f;
	return 0;
}

void forecast_destroy(struct forecast *f)
{
	free(f);
}

struct expected_start forecast_get(const struct forecast *f, const struct job *job)
{
	for (size_t i = 0; i < f->count; i++)
		if (f->jobs[i].job == job)
			return f->starts[i];
	return (struct expected_start){0};
}
