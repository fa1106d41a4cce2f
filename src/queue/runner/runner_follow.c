/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_follow.h"
#include "queue/journal/archive.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "queue/journal/trust.h"
#include "queue/runner/runner_claims.h"
#include "queue/runner/runner_hooks.h"
#include "queue/runner/runner_keeper.h"
#include "queue/runner/runner_latest.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_recover.h"
#include "queue/runner/runner_say.h"
#include "queue/runner/runner_sync.h"
#include "queue/runner/runner_trouble.h"
#include "queue/runner/runner_waiting.h"
#include "queue/runner/runner_watch.h"
#include "queue/runner/running.h"
#include "queue/schedule/pending.h"

static void run_is_over(struct runner *r, struct running *run)
{
	if (run->keeper)
		run->keeper->running = NULL;
	run->keeper = NULL;
	running_count(run, -1);
	/* Until the next sample its memory is in what the driver said. */
	run->ended = true;
	running_unclaim(run);
	if (r->simulated || run->num_gpus == 0)
		running_remove(run);
	r->must_place = true;
}

static void count_end(struct runner *r, enum job_state state)
{
	runner_sync_plan(r);
	if (state == JOB_COMPLETED)
		r->result.completed++;
	else if (state == JOB_CANCELLED)
		r->result.cancelled++;
	else
		r->result.failed++, r->failures++;
}

static void on_finished(struct runner *r, struct job *job)
{
	count_end(r, (enum job_state)job->state);
	struct job *dependent = job->dependents;
	job->dependents = NULL;
	while (dependent) {
		struct job *next = dependent->next_dependent;
		dependent->blocked = false;
		r->num_blocked--;
		runner_enqueue(r, dependent);
		dependent = next;
	}
}

static void on_start(struct runner *r, struct job *job)
{
	if (job->running) {
		job->running->started = true;
		running_unclaim(job->running); /* its keeper has its own */
		runner_works(r, ~(1u << RUNNER_TROUBLE_GPUS));
	} else {
		runner_adopt(r, job);
	}
	if (job->attempts->log) {
		runner_latest_note(r, job->attempts->log);
		runner_sync_plan(r);
	}
}

void runner_on_change(void *context, struct job *job, int old)
{
	struct runner *r = context;
	if (r->loading)
		return;
	bool was_waiting = old == JOB_PENDING;
	if (job->state == JOB_PENDING && was_waiting) {
		if (job->wait.position)
			pending_set_priority(r->pending, &job->wait, job->priority);
		return;
	}
	if (old == JOB_RUNNING && job->state != JOB_RUNNING && job->running)
		run_is_over(r, take_ptr(job->running));
	if (was_waiting && !(job->running && job->state == JOB_RUNNING))
		runner_dequeue(r, job);
	if (job->state == JOB_PENDING)
		runner_enqueue(r, job);
	else if (job->state == JOB_RUNNING && old != JOB_RUNNING)
		on_start(r, job);
	else if (job->state == JOB_RUNNING && job->running && job->stuck)
		running_set_stuck(job->running, job);
	else if (job->state == JOB_RUNNING && job->running)
		running_cancel(job->running, false);
	else if (job_is_final(job))
		on_finished(r, job);
	if (job->hook_due && (old == JOB_RUNNING || job_is_final(job)))
		runner_hook_plan(r, job);
	if (old != JOB_RUNNING && job->state != JOB_RUNNING && old >= 0)
		r->fence_stale = true; /* a cancellation, a hold…: the fence was raised */
	if (!runner_watch_changed(r, job, old))
		runner_tell(r, job);
}

static void running_is_known(struct running *run, const struct job *job)
{
	run->started = true;
	running_unclaim(run);
	if (job->stuck)
		running_set_stuck(run, job);
}

/* How a job ended that was pruned before its end was read: its keeper says so, or the archive. */
static enum job_state pruned_state(const struct runner *r, const struct running *run)
{
	struct jobs archived;
	enum job_state state = run->told_state;
	if (state != JOB_PENDING || archive_read(r->journal->path, &archived, NULL) < 0)
		return state;
	const struct job *job = jobs_find(&archived, run->id);
	if (job)
		state = (enum job_state)job->state;
	jobs_finish(&archived);
	return state;
}

/* Everything from the jobs as they are, after a load. */
static int rebuild(struct runner *r)
{
	pending_destroy(r->pending);
	r->pending = NULL;
	r->num_blocked = 0;
	int e = pending_create(&r->pending);
	if (e < 0)
		return e;
	for (struct running *run = r->running, *next; run; run = next) {
		next = run->next;
		struct job *job = jobs_find(&r->jobs, run->id);
		if (run->ended)
			continue;
		if (job && (job->state == JOB_RUNNING || (!run->started && !job_is_final(job)))) {
			job->running = run;
			continue;
		}
		if (!job || job_is_final(job))
			count_end(r, job ? (enum job_state)job->state : pruned_state(r, run));
		run_is_over(r, run);
	}
	for (size_t i = 0; i < r->jobs.count; i++) {
		struct job *job = r->jobs.by_id[i];
		/* Ended without us: our own hook is for what ends while we are there. */
		if (job->hook_due && job->wish->on_finish && !runner_hook_is_planned(r, job->id))
			runner_hook_plan(r, job);
		if (job->state == JOB_PENDING && !job->running)
			runner_enqueue(r, job);
		else if (job->state == JOB_RUNNING && !job->running)
			runner_adopt(r, job);
		else if (job->state == JOB_RUNNING)
			running_is_known(job->running, job);
	}
	r->must_place = true;
	return r->fatal;
}

int runner_read(struct runner *r)
{
	int e;
	r->must_read = false;
	while ((e = journal_reader_read(&r->reader, jobs_apply, &r->jobs)) == 1) {
		/* Pruned: another file, with the same jobs but for some that are over. */
		r->loading = true;
		jobs_reset(&r->jobs);
	}
	if (e < 0) {
		if (e == -ENOTSUP)
			error_set(&r->error, e,
				"reading journal '%s': it was written by a newer gpuq (version %d); use that one",
				r->journal->path, r->jobs.version);
		else
			journal_reader_explain(&r->reader, e, &r->error);
		r->fatal = e;
		return e;
	}
	if (r->loading) {
		r->loading = false;
		e = rebuild(r);
	}
	return e;
}

int runner_resync(struct runner *r, bool raise_fence)
{
	int e = journal_lock(r->journal, &r->error);
	if (e == 0)
		e = runner_read(r);
	if (e == 0 && raise_fence)
		e = journal_raise_fence(r->journal, &r->error);
	if (e == 0) {
		r->fence = r->journal->fence;
		r->fence_stale = false;
	}
	journal_unlock(r->journal);
	if (e < 0 && !r->fatal)
		runner_pause(r, RUNNER_TROUBLE_FOLLOW, e);
	else if (e == 0)
		runner_works(r, 1u << RUNNER_TROUBLE_FOLLOW);
	return e;
}

void runner_append(struct runner *r)
{
	if (r->to_append.length == 0)
		return;
	if (text_error(&r->to_append)) {
		r->fatal = -ENOMEM;
		return;
	}
	size_t written = 0;
	int e = journal_lock(r->journal, &r->error);
	if (e == 0) {
		e = journal_append(r->journal, r->to_append.data, r->to_append.length, &written, &r->error);
		journal_unlock(r->journal);
	}
	if (e < 0)
		runner_pause(r, RUNNER_TROUBLE_WRITE, e);
	else
		runner_works(r, 1u << RUNNER_TROUBLE_WRITE);
	memmove(r->to_append.data, r->to_append.data + written, r->to_append.length - written);
	r->to_append.length -= written;
	r->must_read = true;
}
