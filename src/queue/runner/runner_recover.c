/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_recover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/loop.h"
#include "base/process.h"
#include "queue/journal/record.h"
#include "queue/keeper/attempt.h"
#include "queue/keeper/keeper_job.h"
#include "queue/keeper/keeper_lock.h"
#include "queue/runner/runner_follow.h"
#include "queue/runner/runner_hooks.h"
#include "queue/runner/runner_keeper.h"
#include "queue/runner/runner_leases.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_say.h"
#include "queue/runner/runner_trouble.h"
#include "queue/runner/runner_unknown.h"
#include "queue/runner/runner_waiting.h"
#include "queue/runner/running.h"
#include "queue/schedule/scheduler.h"

/* Processes that a lost keeper left behind are killed again after this delay, later less often; after STUCK_MS they
 * cannot be killed. */
#define KILL_AGAIN_MS  10
#define KILL_SLOWLY_MS 200
#define STUCK_MS       10000

bool runner_same_host(const struct runner *r, const struct keeper_info *k)
{
	return keeper_is_here(k, &r->machine);
}

pid_t runner_keeper_holder(const struct runner *r, const struct keeper_info *k)
{
	return keeper_lock_holder(r->following.journal->dir_fd, k);
}

/* ---- A keeper that is gone ------------------------------------------------------- */

/* More ancestors of a process are not examined. */
#define MOST_ANCESTORS 64

/*
 * Whether the keeper is an ancestor of the process: then it is not gone, but has its lock in a folder that was removed,
 * or in that of the queue of which ours is a copy. A keeper that is exiting is gone: the kernel frees its lock before
 * it gives its children to another process.
 */
static bool has_keeper(pid_t pid, const struct keeper_info *keeper)
{
	struct process_info info;
	for (int i = 0; i < MOST_ANCESTORS && pid > 1; i++, pid = info.ppid) {
		if (process_info(pid, &info) < 0)
			return false;
		if (info.ppid == keeper->pid)
			return process_info(keeper->pid, &info) == 0 && !info.is_exiting;
	}
	return false;
}

/* SIGKILL for a process of a job whose keeper is gone, else 0. */
static int ask_if_left(void *context, pid_t pid, const char *value)
{
	struct runner *r = context;
	for (struct running *run = r->executing.running; run; run = run->next) {
		const struct job *job = run->lost_ns ? jobs_find(&r->following.jobs, run->id) : NULL;
		if (!job || !job->keeper || job->state != JOB_RUNNING)
			continue;
		cleanup_(text_finish) struct text cookie = {0};
		attempt_cookie(&cookie, job->keeper->name, job->id, job->attempts->attempt);
		if (strcmp(text_string(&cookie) + strlen(ATTEMPT_COOKIE "="), value) == 0) {
			run->kept = run->kept || has_keeper(pid, job->keeper);
			run->left = !run->kept;
			return run->kept ? 0 : SIGKILL;
		}
	}
	return 0;
}

/* Kills the processes of all lost jobs in one pass over /proc. Does not wait: a timer checks again for survivors. */
static void kill_left_behind(struct runner *r)
{
	bool any = false;
	for (struct running *run = r->executing.running; run; run = run->next) {
		run->left = run->kept = false;
		any = any || run->lost_ns;
	}
	if (any && process_signal_marked(ATTEMPT_COOKIE, ask_if_left, r) < 0)
		runner_say(r, "gpuq: cannot find processes left behind by a killed keeper: /proc cannot be read\n");
}

/* Whether the keeper knew, before it was killed, that its allocation ends. */
static bool was_told(const struct runner *r, const struct job *job)
{
	char name[KEEPER_FILE_ROOM];
	return job->keeper && keeper_lock_file(job->keeper, name) &&
	       keeper_job_was_interrupted(r->following.journal->dir_fd, name, job->id);
}

/* Whether the keeper was killed with its allocation, which is not ours. A job that repeatedly ends its allocation
 * fails. */
static bool was_killed_with_allocation(const struct runner *r, const struct job *job)
{
	int losses = 0;
	for (const struct job_attempt *a = job->attempts; a; a = a->earlier)
		losses += a->interrupted && a->reason && strcmp(a->reason, REASON_KEEPER_LOST) == 0;
	return job->keeper && job->keeper->allocation && strcmp(job->keeper->allocation, r->allocation) != 0 &&
	       losses < ALLOCATION_LOSSES;
}

/* Under the append lock, with all lines read, only we can write this attempt's end. */
static int append_lost(struct runner *r, uint64_t id, const char *reason)
{
	struct gd_error err;
	int e = journal_lock(r->following.journal, &err);
	if (e < 0)
		return e;
	e = runner_read(r);
	struct job *job = jobs_find(&r->following.jobs, id);
	if (e == 0 && job && job->state == JOB_RUNNING && runner_keeper_holder(r, job->keeper) == 0) {
		cleanup_(text_finish) struct text t = {0};
		bool told = was_told(r, job), interrupted = told || was_killed_with_allocation(r, job);
		record_write_end(&t, &(struct attempt_end){.id = id,
					     .attempt = job->attempts->attempt,
					     .state = JOB_FAILED,
					     .exit_code = -1,
					     .reason = told ? REASON_INTERRUPTED : reason,
					     .duration_ms = -1,
					     .peak_mem_mb = -1,
					     .energy_j = -1,
					     .by_runner = true,
					     .interrupted = interrupted,
					     .hook_due = !interrupted && (job->wish->on_finish || r->options.on_finish),
					     .on_finish = interrupted ? NULL : runner_hook_to_record(r, job)});
		e = text_error(&t);
		if (e == 0)
			e = journal_append(r->following.journal, t.data, t.length, NULL, &err);
	}
	journal_unlock(r->following.journal);
	return e;
}

static void end_lost(struct runner *r, uint64_t id, const char *reason)
{
	int e = append_lost(r, id, reason);
	if (e < 0) {
		runner_pause(r, RUNNER_TROUBLE_END, e);
		r->executing.must_judge = true;
	} else {
		runner_works(r, 1u << RUNNER_TROUBLE_END);
	}
	r->following.must_read = true;
}

/* Processes do not die: the end is not written while they run, but the runner no longer waits for it. */
static void judge_left(struct runner *r, struct running *run, const struct job *job)
{
	uint64_t age_ms = (clock_now_ns() - run->lost_ns) / NS_PER_MS;
	if (age_ms >= STUCK_MS && !job->stuck) {
		record_write_stuck(&r->following.to_append, job->id, job->attempts->attempt);
		return;
	}
	/* A stuck job is checked with all others, once a second. */
	if (age_ms < STUCK_MS)
		loop_set_deadline(r->executing.judge,
			clock_now_ns() + (age_ms < 1000 ? KILL_AGAIN_MS : KILL_SLOWLY_MS) * NS_PER_MS);
}

static void judge_lost(struct runner *r, struct running *run, const struct job *job)
{
	if (run->kept)
		loop_set_deadline(
			r->executing.judge, clock_now_ns() + NS_PER_S); /* otherwise, the job would run twice */
	else if (run->left)
		judge_left(r, run, job);
	else
		end_lost(r, job->id, REASON_KEEPER_LOST);
}

static bool machine_restarted(const struct runner *r, const struct job *job)
{
	return job->keeper && *job->keeper->machine.boot && strcmp(job->keeper->machine.boot, r->machine.boot) != 0;
}

/* The keeper is alive. If it cannot be reached, it is checked again once a second. */
static void adopt_keeper(struct runner *r, struct running *run, const struct job *job)
{
	if (!runner_keeper_adopt(r, run, job->keeper))
		return;
	/* The process that requested the cancellation may have died before it told the keeper, or was on another
	 * machine. */
	if (r->interrupts >= 2 && *r->allocation)
		running_interrupt(run);
	else if (job->cancel_requested || r->interrupts >= 2)
		running_cancel(run, r->interrupts > 2);
}

static void judge(struct runner *r, struct running *run, struct job *job)
{
	if (run->keeper || run->foreign)
		return;
	if (!run->started) {
		running_keeper_died(run);
	} else if (job->state == JOB_RUNNING) {
		pid_t holder = runner_keeper_holder(r, job->keeper);
		if (holder != 0)
			adopt_keeper(r, run, job);
		else if (machine_restarted(r, job))
			end_lost(r, job->id, REASON_RESTARTED);
		else if (!run->lost_ns)
			run->lost_ns = clock_now_ns();
	}
}

/* Iterates by ID: judging one job reads the journal, which may end others. */
void runner_judge(struct runner *r)
{
	size_t n = 0;
	r->executing.must_judge = false;
	runner_unknown_check(r);
	runner_leases_judge(r);
	for (struct running *run = r->executing.running; run; run = run->next)
		n++;
	cleanup_(freep) uint64_t *ids = calloc(n + 1, sizeof(*ids));
	if (!ids) {
		runner_pause(r, RUNNER_TROUBLE_END, -ENOMEM);
		r->executing.must_judge = true;
		return;
	}
	n = 0;
	for (struct running *run = r->executing.running; run; run = run->next)
		ids[n++] = run->id;
	for (size_t i = 0; i < n; i++) {
		struct job *job = jobs_find(&r->following.jobs, ids[i]);
		if (job && job->running)
			judge(r, job->running, job);
	}
	kill_left_behind(r);
	for (size_t i = 0; i < n; i++) {
		struct job *job = jobs_find(&r->following.jobs, ids[i]);
		if (job && job->running && job->running->lost_ns && job->state == JOB_RUNNING)
			judge_lost(r, job->running, job);
	}
}

/* ---- Taking over -------------------------------------------------------------------- */

int runner_gpu_position(const struct runner *r, int index)
{
	for (size_t g = 0; r->watching.gpus && g < r->watching.gpus->count; g++)
		if (r->watching.gpus->gpus[g]->index == index)
			return (int)g;
	return -1;
}

void runner_adopt(struct runner *r, struct job *job)
{
	struct running *run = running_add(r, job->id);
	if (!run) {
		r->fatal = -ENOMEM;
		return;
	}
	job->running = run;
	run->started = true;
	run->foreign = !runner_same_host(r, job->keeper);
	const struct job_attempt *a = job->attempts;
	run->gpus = calloc(a->num_gpus + 1u, sizeof(int));
	if (!run->gpus) {
		r->fatal = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < a->num_gpus; i++) {
		int position = runner_gpu_position(r, a->gpus[i]);
		if (position >= 0)
			run->gpus[run->num_gpus++] = position;
	}
	if (run->foreign)
		return;
	if (scheduler_adopt(r->deciding.scheduler, job, run->gpus, run->num_gpus) < 0)
		r->fatal = -ENOMEM;
	running_count(run, 1);
	if (job->stuck)
		running_set_stuck(run, job);
	r->executing.must_judge = true;
}

/* Removes files of keepers that are gone and have no job. */
static void clean_keepers(struct runner *r)
{
	int fd = openat(r->following.journal->dir_fd, "keepers", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		closep(&fd);
		return;
	}
	for (struct dirent *e; (e = readdir(d));) {
		char name[300];
		pid_t holder;
		snprintf(name, sizeof(name), "keepers/%s", e->d_name);
		if (e->d_name[0] == '.' || lock_holder_at(r->following.journal->dir_fd, name, &holder) < 0 ||
			holder != 0)
			continue;
		bool needed = false;
		for (struct running *run = r->executing.running; run && !needed; run = run->next) {
			struct job *job = jobs_find(&r->following.jobs, run->id);
			needed = job && job->keeper && strcmp(job->keeper->name, e->d_name) == 0;
		}
		if (!needed)
			unlinkat(r->following.journal->dir_fd, name, 0);
	}
	closedir(d);
}

int runner_take_over(struct runner *r, struct gd_error *err)
{
	/* The first lock performs recovery and conversion. */
	int e = journal_lock(r->following.journal, &r->error);
	journal_unlock(r->following.journal);
	/* Reads all but the last lines without the lock, so that no other process waits for us. */
	if (e == 0)
		e = runner_read(r);
	if (e == 0)
		e = runner_resync(r, true);
	if (e < 0)
		return error_set(err, e, "%s", r->error.message);
	clean_keepers(r);
	runner_judge(r);
	return 0;
}

void running_keeper_died(struct running *run)
{
	struct runner *r = run->runner;
	uint64_t id = run->id;
	/* The keeper's child may be about to append `start`: from here on it cannot. */
	if (runner_resync(r, true) < 0) {
		r->executing.must_judge = true;
		return;
	}
	struct job *job = jobs_find(&r->following.jobs, id);
	run = job ? job->running : NULL;
	if (!run || run->keeper)
		return;
	if (job->state != JOB_RUNNING && !run->started) {
		running_count(run, -1);
		running_remove(run);
		if (job->state == JOB_PENDING)
			runner_enqueue(r, job);
		r->deciding.must_place = true;
	} else {
		r->executing.must_judge = true;
	}
}
