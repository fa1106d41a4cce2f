/* SPDX-License-Identifier: MIT */
/*
 * Jobs that would not end before the runner's allocation does. They are set aside until similar jobs
 * turn out to be shorter than estimated, or the time limit of the allocation is changed: otherwise
 * the remaining time only shrinks.
 */
#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/units.h"
#include "queue/schedule/pending.h"
#include "queue/schedule/run_times.h"
#include "queue/schedule/scheduler_private.h"

/* A job that takes longer never fits, and is treated like a job of unknown duration. */
#define MOST_MS ((int64_t)1 << 50)
/* How often jobs are regrouped by their duration while estimates change. */
#define REGROUP_MS 5000

struct past_run {
	const struct job *job;
	const struct job_attempt *attempt;
};

static int compare_ends(const void *a, const void *b)
{
	const struct past_run *x = a, *y = b;
	if (x->attempt->end_ms != y->attempt->end_ms)
		return x->attempt->end_ms < y->attempt->end_ms ? -1 : 1;
	return (x->job->id > y->job->id) - (x->job->id < y->job->id);
}

/* In the order in which they ended, as scheduler_end() adds later ones: all readers of the journal get the same
 * estimates. */
static struct run_times *read_past(const struct jobs *js)
{
	cleanup_(freep) struct past_run *runs = NULL;
	size_t count = 0, capacity = 0;
	for (size_t i = 0; i < js->count; i++)
		for (const struct job_attempt *a = js->by_id[i]->attempts; a; a = a->earlier) {
			if (a->state != JOB_COMPLETED)
				continue;
			if (array_reserve(runs, &capacity, count + 1) < 0)
				return NULL;
			runs[count++] = (struct past_run){js->by_id[i], a};
		}
	struct run_times *times = run_times_create();
	if (count > 0)
		qsort(runs, count, sizeof(*runs), compare_ends);
	for (size_t i = 0; times && i < count; i++)
		run_times_add(times, runs[i].job, runs[i].attempt->duration_ms);
	return times;
}

/* The duration of similar commands, at most the job's timeout; otherwise the timeout; 0: neither is known. */
static int64_t expected_ms(struct scheduler *s, const struct job *job)
{
	int64_t timeout_ms = job->wish->timeout_ms >= 0 ? job->wish->timeout_ms : s->settings.timeout_ms;
	if (!s->times)
		s->times = read_past(s->jobs);
	struct duration_estimate e = {0};
	if (s->times)
		e = run_times_estimate(s->times, job);
	int64_t took_ms = (int64_t)e.high_ms;
	return e.samples == 0 || (timeout_ms > 0 && timeout_ms < took_ms) ? timeout_ms : took_ms;
}

/* Keeps four bits, rounded up: few distinct times, each at most an eighth too long. */
static int64_t round_up(int64_t ms)
{
	int shift = 0;
	while (ms >> shift > 15)
		shift++;
	return ((ms + ((int64_t)1 << shift) - 1) >> shift) << shift;
}

int64_t scheduler_time_ms(struct scheduler *s, const struct job *job)
{
	int64_t ms = s->cluster ? expected_ms(s, job) : 0;
	return ms > 0 && ms <= MOST_MS ? round_up(ms) : 0;
}

int64_t scheduler_over_ms(struct scheduler *s, const struct job *job)
{
	int64_t ms = s->cluster ? expected_ms(s, job) : 0;
	return ms > 0 ? s->wall_ms + ms : 0;
}

bool scheduler_is_late(struct scheduler *s, const struct job *job)
{
	if (s->cluster || !s->settings.end_ms || job->state != JOB_PENDING || scheduler_has(s, job->id))
		return false;
	int64_t ms = expected_ms(s, job);
	return ms > 0 && s->wall_ms + ms > s->settings.end_ms;
}

void scheduler_set_aside(struct scheduler *s, struct job *job)
{
	scheduler_unlist(s, job);
	s->pass_stale = false; /* the pass continues */
	scheduler_link(&s->late, job);
	job->late = true;
	s->num_late++;
}

void scheduler_unset_aside(struct scheduler *s, struct job *job)
{
	scheduler_unlink(job);
	job->late = false;
	s->num_late--;
}

void scheduler_forget_end(struct scheduler *s)
{
	s->settings.end_ms = 0;
}

void scheduler_set_end(struct scheduler *s, int64_t end_ms)
{
	s->settings.end_ms = end_ms;
	s->late_stale = s->pass_stale = true;
}

size_t scheduler_num_late(const struct scheduler *s)
{
	return s->num_late;
}

void scheduler_late_completed(struct scheduler *s, const struct job *job)
{
	if (!s->times || !job || !job->attempts || job->attempts->state != JOB_COMPLETED)
		return;
	struct duration_estimate before = run_times_estimate(s->times, job);
	run_times_add(s->times, job, job->attempts->duration_ms);
	struct duration_estimate now = run_times_estimate(s->times, job);
	if (s->num_late > 0 && (before.samples == 0 || now.high_ms < before.high_ms))
		s->late_stale = true;
	if (s->cluster && (before.samples == 0 || round_up((int64_t)before.high_ms) != round_up((int64_t)now.high_ms)))
		s->regroup = true;
}

/* Puts waiting jobs whose estimated duration has changed in front of the list `due`. */
static struct job *take_regrouped(struct scheduler *s, struct job *due)
{
	if (!s->regroup || (s->wall_ms < s->regroup_ms && s->wall_ms + REGROUP_MS > s->regroup_ms))
		return due;
	s->regroup = false;
	s->regroup_ms = s->wall_ms + REGROUP_MS;
	for (size_t i = 0; i < s->jobs->count; i++) {
		struct job *job = s->jobs->by_id[i];
		if (!job->wait.position || pending_need(s->pending, &job->wait)->time_ms == scheduler_time_ms(s, job))
			continue;
		scheduler_unlist(s, job);
		job->next_dependent = due;
		due = job;
	}
	return due;
}

static bool is_kept_in_vain(struct scheduler *s, bool active, uint64_t id)
{
	const struct job *job = active ? jobs_find(s->jobs, id) : NULL;
	return job && scheduler_is_late(s, job);
}

struct job *scheduler_take_timely(struct scheduler *s, struct job *due)
{
	const struct placement_reservation *r = &s->reservation;
	/* Time has passed: what is reserved for a job that can no longer start is free for others. */
	if (s->settings.end_ms &&
		(is_kept_in_vain(s, r->active, r->job) || is_kept_in_vain(s, r->host_active, r->host_job)))
		s->pass_stale = true;
	due = take_regrouped(s, due);
	if (!s->late_stale)
		return due;
	s->late_stale = false;
	for (struct job *next, *job = s->late; job; job = next) {
		next = job->next_dependent;
		if (scheduler_is_late(s, job))
			continue;
		scheduler_unset_aside(s, job);
		job->next_dependent = due;
		due = job;
	}
	return due;
}

void scheduler_say_late(struct text *t, const struct scheduler *s)
{
	char left[UNITS_ROOM];
	int64_t ms = s->settings.end_ms - s->wall_ms;
	text_appendf(t, "does not fit into the remaining time of %s (%s)", s->settings.end_whose,
		units_format_duration(ms > 0 ? (uint64_t)ms : 0, left));
}
