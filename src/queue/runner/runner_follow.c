/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_follow.h"
#include "queue/journal/archive.h"
#include "queue/journal/damage.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "queue/journal/trust.h"
#include "queue/runner/runner_claims.h"
#include "queue/runner/runner_hooks.h"
#include "queue/runner/runner_keeper.h"
#include "queue/runner/runner_latest.h"
#include "queue/runner/runner_leases.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_recover.h"
#include "queue/runner/runner_say.h"
#include "queue/runner/runner_sync.h"
#include "queue/runner/runner_trouble.h"
#include "queue/runner/runner_unknown.h"
#include "queue/runner/runner_waiting.h"
#include "queue/runner/runner_watch.h"
#include "queue/runner/running.h"
#include "queue/schedule/scheduler.h"

static void run_is_over(struct runner *r, struct running *run)
{
	running_count(run, -1);
	scheduler_end(r->deciding.scheduler, run->id);
	running_remove(run);
	r->deciding.must_place = true;
}

static void count_end(struct runner *r, enum job_state state)
{
	runner_sync_plan(r);
	if (state == JOB_COMPLETED)
		r->result.completed++;
	else if (state == JOB_CANCELLED)
		r->result.cancelled++;
	else
		r->result.failed++, r->deciding.failures++;
}

static void on_finished(struct runner *r, struct job *job)
{
	count_end(r, (enum job_state)job->state);
	runner_release(r, job);
}

static void on_start(struct runner *r, struct job *job)
{
	if (job->running) {
		job->running->started = true;
		running_unclaim(job->running); /* the keeper has its own claim */
		runner_works(r, ~(1u << RUNNER_TROUBLE_GPUS));
	} else {
		runner_adopt(r, job);
	}
	if (job->attempts->log) {
		runner_latest_note(r, job->attempts->log);
		runner_sync_plan(r);
	}
}

/* A keeper may still have the job, for example if it was held and released: then it waits again when the keeper
 * refuses it or dies. */
static void wait_again(struct runner *r, struct job *job)
{
	if (!job->running)
		runner_enqueue(r, job);
}

void runner_on_change(void *context, struct job *job, int old)
{
	struct runner *r = context;
	if (r->following.loading)
		return;
	bool was_waiting = old == JOB_PENDING;
	if (old == JOB_UNKNOWN)
		runner_unknown_forget(r, job->id);
	else if (job->state == JOB_UNKNOWN)
		r->executing.look_for_unknown = true;
	if ((old == JOB_COMPLETED || old == JOB_FAILED || old == JOB_CANCELLED) && !job_is_final(job))
		scheduler_reopen(r->deciding.scheduler, job);
	if (job->state == JOB_PENDING && was_waiting) {
		/* The job was edited or made urgent. A keeper that has it can no longer start it: the fence was
		 * raised. */
		r->following.fence_stale = true;
		runner_dequeue(r, job);
		wait_again(r, job);
		return;
	}
	/* An unknown job has a running entry if its `start` was lost before this runner had read it. */
	bool ended = old == JOB_RUNNING ? job->state != JOB_RUNNING : old == JOB_UNKNOWN && job_is_final(job);
	if (ended && job->running)
		run_is_over(r, take_ptr(job->running));
	if (was_waiting && !(job->running && job->state == JOB_RUNNING))
		runner_dequeue(r, job);
	if (job->lease && job->state == JOB_HELD)
		runner_lease_watch(r, job);
	if (job->state == JOB_PENDING)
		wait_again(r, job);
	else if (job->state == JOB_RUNNING && old != JOB_RUNNING)
		on_start(r, job);
	else if (job->state == JOB_RUNNING && job->running && job->stuck)
		running_set_stuck(job->running, job);
	else if (job->state == JOB_RUNNING && job->running && job->cancel_requested)
		running_cancel(job->running, false);
	else if (job_is_final(job))
		on_finished(r, job);
	/* If this runner failed the job, the line names its hook; a cancellation by another process does not. */
	if (job->state == JOB_CANCELLED && old != JOB_RUNNING && old >= 0 && !job->reason)
		runner_hook_add(r, job);
	if (old != JOB_RUNNING && job->state != JOB_RUNNING && old >= 0)
		r->following.fence_stale = true; /* a cancellation, a hold…: the fence was raised */
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

/* The final state of a job that was pruned before its end was read: from its keeper, or from the archive. */
static enum job_state pruned_state(const struct runner *r, const struct running *run)
{
	struct jobs archived;
	enum job_state state = run->told_state;
	const struct journal *j = r->following.journal;
	if (state != JOB_PENDING || archive_read(j->path, !j->accepted, &archived, NULL) < 0)
		return state;
	const struct job *job = jobs_find(&archived, run->id);
	if (job)
		state = (enum job_state)job->state;
	jobs_finish(&archived);
	return state;
}

/* Rebuilds the state from the jobs, after a load. */
static int rebuild(struct runner *r)
{
	int e = scheduler_reset(r->deciding.scheduler);
	if (e < 0)
		return e;
	runner_unknown_forget_all(r);
	r->executing.look_for_unknown = true;
	for (struct running *run = r->executing.running, *next; run; run = next) {
		next = run->next;
		struct job *job = jobs_find(&r->following.jobs, run->id);
		if (job && (job->state == JOB_RUNNING || (!run->started && !job_is_final(job)))) {
			job->running = run;
			continue;
		}
		if (!job || job_is_final(job))
			count_end(r, job ? (enum job_state)job->state : pruned_state(r, run));
		run_is_over(r, run);
	}
	for (size_t i = 0; i < r->following.jobs.count; i++) {
		struct job *job = r->following.jobs.by_id[i];
		if (job->state == JOB_PENDING && !job->running)
			runner_enqueue(r, job);
		else if (job->state == JOB_HELD && job->lease)
			runner_lease_watch(r, job);
		else if (job->state == JOB_RUNNING && !job->running)
			runner_adopt(r, job);
		else if (job->state == JOB_RUNNING)
			running_is_known(job->running, job);
	}
	r->deciding.must_place = true;
	return r->fatal;
}

/* 1: another file, or another order of its lines; its jobs must be read from the beginning. */
static int read_lines(struct runner *r)
{
	struct damage_check check;
	damage_look(&check, &r->following.reader, -1);
	int e = journal_reader_read(&r->following.reader, jobs_apply, &r->following.jobs);
	return e == 0 ? damage_judge(&check, &r->following.reader, -1, &r->following.jobs) : e;
}

/* The process that paused the queue has raised the fence. */
static void change_pause(struct runner *r)
{
	r->following.paused = r->following.jobs.paused;
	r->following.fence_stale = true;
	r->deciding.must_place = true;
	if (!r->options.quiet)
		runner_say(r, r->following.paused ? "The queue is paused; 'gpuq resume' continues it\n"
						  : "The queue continues\n");
}

int runner_read(struct runner *r)
{
	int e, resets = 0;
	r->following.must_read = false;
	while ((e = read_lines(r)) == 1 && resets++ < JOURNAL_MOST_RESETS) {
		/* Pruned: a new file, with the same jobs except for some that have ended. */
		r->following.loading = true;
		jobs_reset(&r->following.jobs);
	}
	if (e == 1)
		e = -EAGAIN;
	if (e < 0) {
		if (e == -EAGAIN)
			error_set(&r->error, e, "cannot read journal '%s': the file keeps being replaced",
				r->following.journal->path);
		else if (e == -ENOTSUP)
			error_set(&r->error, e,
				"cannot read journal '%s': it was written by a newer version of gpuq (journal version %d); use that version",
				r->following.journal->path, r->following.jobs.version);
		else
			journal_reader_explain(&r->following.reader, e, &r->error);
		r->fatal = e;
		return e;
	}
	if (r->following.loading) {
		r->following.loading = false;
		e = rebuild(r);
		if (e < 0)
			error_set(&r->error, e, "cannot read journal '%s': %s", r->following.journal->path,
				error_words(e));
	}
	if (r->executing.look_for_unknown)
		runner_unknown_check(r);
	if (r->following.paused != r->following.jobs.paused)
		change_pause(r);
	return e;
}

int runner_resync(struct runner *r, bool raise_fence)
{
	int e = journal_lock(r->following.journal, &r->error);
	if (e == 0)
		e = runner_read(r);
	if (e == 0 && raise_fence)
		e = journal_raise_fence(r->following.journal, &r->error);
	if (e == 0) {
		r->following.fence = r->following.journal->fence;
		r->following.fence_stale = false;
	}
	journal_unlock(r->following.journal);
	if (e < 0 && !r->fatal)
		runner_pause(r, RUNNER_TROUBLE_FOLLOW, e);
	else if (e == 0)
		runner_works(r, 1u << RUNNER_TROUBLE_FOLLOW);
	return e;
}

void runner_append(struct runner *r)
{
	if (r->following.to_append.length == 0)
		return;
	if (text_error(&r->following.to_append)) {
		r->fatal = -ENOMEM;
		return;
	}
	size_t written = 0;
	int e = journal_lock(r->following.journal, &r->error);
	if (e == 0) {
		e = journal_append(r->following.journal, r->following.to_append.data, r->following.to_append.length,
			&written, &r->error);
		journal_unlock(r->following.journal);
	}
	if (e < 0)
		runner_pause(r, RUNNER_TROUBLE_WRITE, e);
	else
		runner_works(r, 1u << RUNNER_TROUBLE_WRITE);
	memmove(r->following.to_append.data, r->following.to_append.data + written,
		r->following.to_append.length - written);
	r->following.to_append.length -= written;
	r->following.must_read = true;
}
