/* SPDX-License-Identifier: MIT */
/* The runner's work around its decisions: following the journal, the clock, its allocation and leases. */
#include <stdlib.h>
#include <string.h>

#include "queue/journal/record.h"
#include "simulate.h"

/* ---- Following the journal ------------------------------------------------------------ */

static void enqueue(struct world *w, struct job *job)
{
	char words[SCHEDULER_WORDS];
	if (world_find(w, job->id)->parked)
		return;
	int r = scheduler_add(w->scheduler, job, words);
	if (r < 0)
		world_fail(w, "out of memory");
	if (r > 0)
		record_write_fail(&w->lines, job->id, words, NULL);
}

/* Like runner_on_change(). */
static void on_change(void *context, struct job *job, int old)
{
	struct world *w = context;
	if ((old == JOB_COMPLETED || old == JOB_FAILED || old == JOB_CANCELLED) && !job_is_final(job))
		scheduler_reopen(w->scheduler, job);
	if (job->state == JOB_PENDING && old == JOB_PENDING) {
		scheduler_remove(w->scheduler, job);
		enqueue(w, job);
		return;
	}
	if (old == JOB_RUNNING && job->state != JOB_RUNNING)
		scheduler_end(w->scheduler, job->id);
	if (old == JOB_PENDING && job->state != JOB_RUNNING)
		scheduler_remove(w->scheduler, job);
	if (job->state == JOB_PENDING)
		enqueue(w, job);
	else if (job->state == JOB_RUNNING && job->stuck)
		scheduler_set_stuck(w->scheduler, job->id);
	if (!job_is_final(job))
		return;
	for (struct job *next, *d = scheduler_release(w->scheduler, job); d; d = next) {
		next = d->next_dependent;
		enqueue(w, d);
	}
}

void world_apply(struct world *w)
{
	while (w->lines.length > 0) {
		struct text lines = w->lines;
		w->lines = (struct text){0};
		for (size_t at = 0; at < lines.length;) {
			const char *end = memchr(lines.data + at, '\n', lines.length - at);
			size_t size = (size_t)(end - (lines.data + at));
			if (jobs_apply(&w->other_fold, 1, lines.data + at, size) < 0 ||
				jobs_apply(&w->fold, 1, lines.data + at, size) < 0)
				world_fail(w, "the journal's fold failed");
			at += size + 1;
		}
		text_finish(&lines);
	}
}

/* ---- One runner after the other ------------------------------------------------------- */

void world_forget_scheduler(struct jobs *js)
{
	for (size_t i = 0; i < js->count; i++) {
		struct job *job = js->by_id[i];
		job->wait = (struct pending_job){0};
		job->blocked = job->sleeping = job->late = false;
		job->dependents = job->next_dependent = NULL;
		job->dependent_link = NULL;
	}
}

void world_start_runner(struct world *w)
{
	if (scheduler_create(&w->fold, &w->scheduler) < 0)
		world_fail(w, "out of memory");
	w->fold.on_change = on_change;
	w->fold.context = w;
	scheduler_configure(w->scheduler, &w->settings);
	world_sample(w);
	if (w->num_claims > 0 && scheduler_set_claims(w->scheduler, w->claims, w->num_claims) < 0)
		world_fail(w, "out of memory");
	(void)scheduler_set_time(w->scheduler, w->now_ms);
	for (size_t i = 0; i < w->fold.count; i++)
		if (w->fold.by_id[i]->state == JOB_PENDING)
			enqueue(w, w->fold.by_id[i]);
	world_apply(w);
}

void world_restart(struct world *w)
{
	for (size_t i = 1; i <= w->num_jobs; i++) {
		struct world_job *j = &w->jobs[i];
		j->parked = false;
		if (j->live)
			world_interrupt_job(w, j);
	}
	scheduler_destroy(w->scheduler);
	world_forget_scheduler(&w->fold);
	world_start_runner(w);
}

int64_t world_next_end(struct world *w)
{
	return w->now_ms + 1000 * (int64_t)(60 + world_random(w, 400));
}

/* ---- Time ----------------------------------------------------------------------------- */

/* Like runner_begin_look(). */
static void look_at_clock(struct world *w)
{
	for (struct job *next, *job = scheduler_set_time(w->scheduler, w->now_ms); job; job = next) {
		next = job->next_dependent;
		job->next_dependent = NULL;
		enqueue(w, job);
	}
	world_apply(w);
}

void world_pass_time(struct world *w)
{
	if (w->settings.end_ms && w->now_ms >= w->settings.end_ms) {
		w->settings.end_ms = world_chance(w, 60) ? world_next_end(w) : 0;
		world_restart(w);
		w->restarts++;
	}
	for (size_t i = 1; i <= w->num_jobs; i++) {
		struct world_job *j = &w->jobs[i];
		struct job *job = jobs_find(&w->fold, j->id);
		if (!j->parked || (!w->calm && world_chance(w, 50)))
			continue;
		j->parked = false;
		if (job->state == JOB_PENDING)
			enqueue(w, job);
	}
	look_at_clock(w);
}

/* ---- Leases --------------------------------------------------------------------------- */

bool world_has_parked(const struct world *w)
{
	for (size_t i = 1; i <= w->num_jobs; i++)
		if (w->jobs[i].parked)
			return true;
	return false;
}

/* Like runner_lease_grant() and put_back(), when the lease's keeper cannot be reached. */
bool world_park(struct world *w, struct job *job)
{
	if (!job->lease || w->calm || !world_chance(w, 30))
		return false;
	world_find(w, job->id)->parked = true;
	scheduler_withdraw(w->scheduler, job->id);
	w->parked++;
	return true;
}
