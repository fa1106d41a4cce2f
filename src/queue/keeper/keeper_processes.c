/* SPDX-License-Identifier: MIT */
/* The processes of a job: how they end by themselves, and how they are ended. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/process.h"
#include "queue/journal/record.h"
#include "queue/keeper/allocation.h"
#include "queue/keeper/keeper_job.h"
#include "queue/keeper/keeper_private.h"

/* Interval at which processes that must die are killed again. */
#define KILL_AGAIN_MS 50
/* A process that lives this long after the first SIGKILL is stuck in the kernel, and is then killed less often. */
#define STUCK_MS       10000
#define STUCK_AGAIN_MS 1000

bool keeper_reap(struct keeper *k)
{
	for (;;) {
		int status;
		pid_t pid = process_reap(&status);
		if (pid == k->pid) {
			k->reaped = true;
			k->reaped_ns = clock_now_ns();
			k->status = status;
		} else if (pid < 0) {
			return k->reaped;
		} else if (pid == 0) {
			return false;
		}
	}
}

static void signal_tree(int signal)
{
	process_signal_descendants(getpid(), signal);
	/* A stopped process would not get the signal. */
	if (signal != SIGKILL)
		process_signal_descendants(getpid(), SIGCONT);
}

uint64_t keeper_explained_until_ns(const struct keeper *k)
{
	uint64_t took = k->reaped_ns - k->started_ns, most = ALLOCATION_EXIT_MS * NS_PER_MS;
	if (!*k->options->allocation || k->reason || k->page.stage != ATTEMPT_STARTED)
		return 0;
	if (WIFSIGNALED(k->status))
		return k->reaped_ns + ALLOCATION_SIGNAL_MS * NS_PER_MS;
	return k->reaped_ns + (took < most ? took : most);
}

/*
 * Whether the allocation ends, and this was announced early enough to be the reason why the job's first process has
 * ended. Other processes of the job may still be running.
 */
static bool is_explained(const struct keeper *k, const char *reason)
{
	return strcmp(reason, REASON_INTERRUPTED) == 0 && clock_now_ns() < keeper_explained_until_ns(k);
}

void keeper_end_job(struct keeper *k, const char *reason, bool at_once)
{
	if (reason && !k->reason && (!k->reaped || k->phase == KEEPER_HOLDING || is_explained(k, reason)))
		k->reason = reason;
	if (reason && strcmp(reason, REASON_CANCELLED) == 0)
		k->cancel_asked = true;
	/* Without this mark, a keeper that is killed next counts as lost. */
	if (reason && strcmp(reason, REASON_INTERRUPTED) == 0 && k->reason == reason)
		(void)keeper_job_interrupt(k->lock_fd, k->attempt.order.id);
	uint64_t now = clock_now_ns();
	k->paused_ns = 0;
	if (k->phase == KEEPER_HOLDING) {
		k->step_ns = now;
	} else if (at_once) {
		k->phase = KEEPER_KILLING;
		k->step_ns = now;
	} else if (k->phase == KEEPER_RUNNING) {
		k->phase = KEEPER_ENDING;
		signal_tree(SIGTERM);
		k->step_ns = now + (uint64_t)k->attempt.order.grace_ms * NS_PER_MS;
	}
}

/* Reports to all readers of the journal that the job's GPUs take no other job. If it cannot be written now, it is
 * retried. */
static void say_stuck(struct keeper *k)
{
	cleanup_(text_finish) struct text line = {0};
	record_write_stuck(&line, k->attempt.order.id, k->attempt.order.attempt);
	k->stuck = !text_error(&line) && k->page.stage >= ATTEMPT_STARTED &&
		   journal_append_line(k->journal, line.data, line.length, NULL) == 0;
}

void keeper_on_time(struct keeper *k)
{
	uint64_t now = clock_now_ns();
	if (k->phase == KEEPER_RUNNING && k->warn_ns && !k->paused_ns && now >= k->warn_ns) {
		/* The signal would kill processes that do not handle it, for example the job's shell. */
		process_signal_catching(getpid(), (int)k->attempt.order.warn_signal);
		k->warn_ns = 0;
		k->warned = true;
	}
	if (k->phase == KEEPER_RUNNING && k->deadline_ns && !k->paused_ns && now >= k->deadline_ns)
		keeper_end_job(k, REASON_TIMEOUT, false);
	if (k->phase == KEEPER_ENDING && now >= k->step_ns)
		k->phase = KEEPER_KILLING;
	if (k->phase == KEEPER_KILLING && now >= k->step_ns) {
		signal_tree(SIGKILL);
		if (!k->killed_ns)
			k->killed_ns = now;
		if (!k->stuck && now - k->killed_ns >= STUCK_MS * NS_PER_MS)
			say_stuck(k);
		k->step_ns = now + (k->stuck ? STUCK_AGAIN_MS : KILL_AGAIN_MS) * NS_PER_MS;
	}
	if (k->phase == KEEPER_HOLDING && now >= k->step_ns) {
		keeper_finish_job(k);
		return;
	}
	if (k->attempt.log.trim_ns && now >= k->attempt.log.trim_ns)
		attempt_log_trim(&k->attempt.log, now);
	keeper_claim_on_time(&k->claim, now, k->runner.fd < 0);
}
