/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_idle.h"

#include "base/clock.h"
#include "base/date.h"
#include "base/units.h"
#include "queue/journal/record.h"
#include "queue/runner/runner_keeper.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_say.h"
#include "queue/runner/running.h"

/* 0: no warning is wanted. */
static int64_t warn_ms(const struct runner *r, const struct job *job)
{
	int64_t own = job->wish->idle_warn_ms;
	return own > 0 ? own : own < 0 ? 0 : r->options.idle_warn_ms;
}

/* Reports idle GPUs to the keeper, for the hook of the job's end, which the keeper runs. */
static void tell_keeper(const struct running *run, const struct idle_record *record)
{
	struct keeper_order o = {.kind = KEEPER_ORDER_IDLE,
		.id = run->id,
		.idle_at_ms = record->time_ms,
		.idle_since_ms = record->since_ms,
		.idle_ms = record->idle_ms};
	for (size_t i = 0; i < run->num_gpus && i < 64; i++)
		o.idle_gpus |= (uint64_t)run->idle.gpus[i].marked << i;
	if (run->keeper)
		runner_keeper_send(run->keeper, &o, NULL);
}

static void write_state(struct runner *r, const struct running *run, const struct job *job, bool marked)
{
	int gpus[UINT8_MAX];
	const char *hook = job->wish->on_idle ? job->wish->on_idle : r->options.on_idle;
	struct idle_record record = {.id = job->id,
		.attempt = job->attempts->attempt,
		.time_ms = date_now_ms(),
		.gpus = gpus,
		.since_ms = idle_watch_since_ms(&run->idle),
		.idle_ms = (int64_t)(run->idle.idle_ns / NS_PER_MS),
		.hook_due = marked && hook,
		.on_finish = marked ? hook : NULL};
	for (size_t i = 0; i < run->num_gpus && record.num_gpus < UINT8_MAX; i++)
		if (run->idle.gpus[i].marked)
			gpus[record.num_gpus++] = r->watching.gpus->gpus[run->gpus[i]]->index;
	record_write_idle(&r->following.to_append, &record);
	r->following.must_read = true;
	tell_keeper(run, &record);
}

static void say_marked(struct runner *r, const struct running *run, size_t gpu)
{
	char words[UNITS_ROOM];
	const struct idle_gpu *g = &run->idle.gpus[gpu];
	runner_say(r, "gpuq: job %llu: GPU %d has been idle for %s\n", (unsigned long long)run->id,
		r->watching.gpus->gpus[run->gpus[gpu]]->index,
		units_format_duration((g->read_ns - g->since_ns) / NS_PER_MS, words));
}

/* An earlier runner has marked GPUs of this job. */
static void restore(const struct runner *r, struct running *run, const struct job *job)
{
	const struct attempt_idle *known = job->attempts->idle;
	run->idle.idle_ns = (uint64_t)known->idle_ms * NS_PER_MS;
	for (size_t i = 0; i < run->num_gpus; i++)
		for (size_t k = 0; k < known->num_gpus; k++)
			if (r->watching.gpus->gpus[run->gpus[i]]->index == known->gpus[k])
				idle_watch_restore(&run->idle, i, clock_now_ns(), known->since_ms);
}

/* GPUs that an earlier runner has marked are no longer watched. */
static void forget(struct runner *r, const struct job *job)
{
	const struct attempt_idle *known = job->attempts ? job->attempts->idle : NULL;
	if (!known || known->num_gpus == 0)
		return;
	struct idle_record record = {.id = job->id,
		.attempt = job->attempts->attempt,
		.since_ms = known->since_ms,
		.idle_ms = known->idle_ms};
	record_write_idle(&r->following.to_append, &record);
	r->following.must_read = true;
}

void runner_idle_sample(struct runner *r, struct running *run)
{
	const struct job *job = jobs_find(&r->following.jobs, run->id);
	/* The utilization of a simulated GPU is unknown. */
	if (!job || job->state != JOB_RUNNING || !run->started || run->foreign || run->num_gpus == 0 ||
		r->watching.simulated)
		return;
	if (warn_ms(r, job) == 0) {
		forget(r, job);
		return;
	}
	bool first = !run->idle.gpus, marked = false, unmarked = false;
	if (idle_watch_make(&run->idle, run->num_gpus) < 0)
		return;
	if (first && job->attempts->idle)
		restore(r, run, job);
	/* Idle GPUs of a paused job are not a mistake. */
	if (job->paused)
		unmarked = idle_watch_reset(&run->idle);
	for (size_t i = 0; !job->paused && i < run->num_gpus; i++) {
		const struct gd_gpu *g = r->watching.gpus->gpus[run->gpus[i]];
		struct idle_reading reading = {
			.known = g->known & GD_GPU_KNOWN_UTILIZATION && g->health == GD_GPU_HEALTH_OK,
			.percent = g->utilization_percent,
			.now_ns = clock_now_ns(),
			.now_ms = date_now_ms()};
		enum idle_change change =
			idle_watch_read(&run->idle, i, (uint64_t)warn_ms(r, job) * NS_PER_MS, &reading);
		if (change == IDLE_MARKED)
			say_marked(r, run, i);
		marked = marked || change == IDLE_MARKED;
		unmarked = unmarked || change == IDLE_UNMARKED;
	}
	if (marked || unmarked)
		write_state(r, run, job, marked);
}
