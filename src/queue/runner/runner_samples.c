/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_samples.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/loop.h"
#include "queue/journal/samples.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/running.h"

#define MB ((uint64_t)1024 * 1024)
/* Delay after the start of the first job: long enough to see its allocations, short enough to see a brief job. */
#define FIRST_MS 100

static void fill_gpu(const struct runner *r, size_t position, uint64_t *jobs, struct sample_gpu *ret)
{
	const struct gd_gpu *gpu = r->watching.gpus->gpus[position];
	*ret = (struct sample_gpu){.gpu = gpu->index, .mem_used_mb = -1, .mem_total_mb = -1, .util = -1, .jobs = jobs};
	/* A lost GPU still has its last values. */
	bool fresh = gpu->health == GD_GPU_HEALTH_OK;
	if (fresh && gpu->known & GD_GPU_KNOWN_MEMORY_USED)
		ret->mem_used_mb = (int64_t)(gpu->memory_used_bytes / MB);
	if (gpu->known & GD_GPU_KNOWN_MEMORY_TOTAL)
		ret->mem_total_mb = (int64_t)(gpu->memory_total_bytes / MB);
	if (fresh && gpu->known & GD_GPU_KNOWN_UTILIZATION)
		ret->util = (int)gpu->utilization_percent;
	for (const struct running *run = r->executing.running; run; run = run->next)
		for (size_t i = 0; i < run->num_gpus; i++)
			if (run->gpus[i] == (int)position && run->started && !run->foreign)
				jobs[ret->num_jobs++] = run->id;
}

/* At most one entry per job. */
static size_t fill_peaks(const struct runner *r, struct sample_peak *ret)
{
	size_t n = 0;
	for (const struct running *run = r->executing.running; run; run = run->next)
		if (run->num_gpus && run->peak_bytes && run->started && !run->foreign)
			ret[n++] = (struct sample_peak){run->id, (int64_t)((run->peak_bytes + MB - 1) / MB)};
	return n;
}

static void on_sample(void *context, uint32_t events)
{
	struct runner *r = context;
	(void)events;
	r->watching.sample_due = false;
	r->watching.sampled_ns = clock_now_ns();
	size_t n = 0;
	for (const struct running *run = r->executing.running; run; run = run->next)
		n += run->num_gpus;
	cleanup_(freep) uint64_t *jobs = calloc(n + 1, sizeof(*jobs));
	cleanup_(freep) struct sample_gpu *gpus = calloc(r->watching.gpus->count + 1, sizeof(*gpus));
	cleanup_(freep) struct sample_peak *peaks = calloc(n + 1, sizeof(*peaks));
	if (!jobs || !gpus || !peaks)
		return;
	size_t num_peaks = fill_peaks(r, peaks);
	n = 0;
	for (size_t g = 0; g < r->watching.gpus->count; g++) {
		fill_gpu(r, g, jobs + n, &gpus[g]);
		n += gpus[g].num_jobs;
	}
	/* Best effort. */
	(void)samples_append(r->following.journal->dir_fd, &(struct sample){.time_ms = date_now_ms(),
								   .gpus = gpus,
								   .num_gpus = r->watching.gpus->count,
								   .peaks = peaks,
								   .num_peaks = num_peaks});
}

int runner_samples_open(struct runner *r)
{
	return loop_add_timer(r->loop, on_sample, r, &r->watching.sample);
}

void runner_samples_plan(struct runner *r)
{
	if (r->watching.sample_due || r->executing.num_running == 0 || r->watching.gpus->count == 0)
		return;
	uint64_t first = clock_now_ns() + FIRST_MS * NS_PER_MS;
	uint64_t next = r->watching.sampled_ns ? r->watching.sampled_ns + SAMPLES_INTERVAL_MS * NS_PER_MS : 0;
	r->watching.sample_due = loop_set_deadline(r->watching.sample, next > first ? next : first) == 0;
}
