/* SPDX-License-Identifier: MIT */
/* The end of a job: its journal line, and the note to the runner. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "queue/journal/follow.h"
#include "queue/journal/record.h"
#include "queue/keeper/keeper_job.h"
#include "queue/keeper/keeper_private.h"
#include "queue/keeper/oom.h"

/* Delay before a failed write is retried. */
#define WRITE_AGAIN_MS 200

static bool ran_out_of_memory(const struct keeper *k, const struct attempt_end *e)
{
	cleanup_(freep) char *tail = malloc(OOM_TAIL_BYTES);
	if (k->attempt.order.num_gpus == 0 || !tail)
		return false;
	return oom_happened(&(struct oom_evidence){.exit_code = e->exit_code,
		.signal = e->signal,
		.full = k->gpu_full,
		.tail = tail,
		.size = attempt_log_tail(&k->attempt.log, tail, OOM_TAIL_BYTES)});
}

/* A job that checkpoints after this much work makes progress. */
#define WORK_MS 60000

/* The job asks to be requeued. This uses up a retry unless we told the job to end, or it has run for WORK_MS. */
static void requeue(const struct keeper *k, struct attempt_end *e, struct text *words)
{
	bool told = k->warned || (k->reason && strcmp(k->reason, REASON_TIMEOUT) == 0);
	text_clear(words);
	text_append_string(words, REASON_CHECKPOINT);
	e->state = JOB_FAILED;
	if (!told && e->duration_ms < WORK_MS)
		return;
	e->interrupted = true;
	e->hook_due = false;
}

static bool is_checkpoint(const struct keeper *k, const struct attempt_end *e)
{
	bool ours = k->reason && strcmp(k->reason, REASON_TIMEOUT) != 0;
	return k->attempt.order.requeue_on && e->exit_code == (int)k->attempt.order.requeue_on && !ours &&
	       k->page.stage == ATTEMPT_STARTED;
}

/*
 * In joules; -1: not known. Measured from the job's first sample to its last, which must cover most of
 * its time, and extrapolated to the rest. Not known without a runner, which would notice other users
 * of the GPUs.
 */
static int64_t energy_of(const struct keeper *k, int64_t duration_ms)
{
	if (k->runner.fd < 0 || k->power_span_ms <= 0 || k->mean_power_mw < 0 ||
		(double)k->power_span_ms < 0.75 * (double)duration_ms)
		return -1;
	double joules = (double)k->mean_power_mw * (double)duration_ms / 1e6 + 0.5;
	return joules < 1e15 ? (int64_t)joules : -1;
}

/* Why the directory of a job is refused (-ENOTUNIQ). */
static const char *replaced_words(const struct attempt *a)
{
	return a->order.cwd_own
		       ? "others can write to it, or it was replaced since the job was added; look at what is there, then add the job again, or remove their write permission (chmod go-w) and retry it"
		       : "another user may have replaced it since the job was added; if it is the right one, add the job again";
}

static void describe_end(struct keeper *k, struct attempt_end *e, struct text *words)
{
	const struct attempt *a = &k->attempt;
	*e = (struct attempt_end){.id = a->order.id,
		.attempt = a->order.attempt,
		.exit_code = -1,
		.peak_mem_mb = k->peak_mem_mb,
		.hook_due = *a->on_finish != 0};
	e->duration_ms = (int64_t)((clock_now_ns() - k->started_ns) / NS_PER_MS);
	e->energy_j = energy_of(k, e->duration_ms);
	e->state = JOB_FAILED;
	if (WIFSIGNALED(k->status))
		e->signal = WTERMSIG(k->status);
	else
		e->exit_code = WEXITSTATUS(k->status);
	if (k->page.stage == ATTEMPT_NO_DIRECTORY)
		text_appendf(words, "cannot enter directory '%s': %s", a->cwd,
			k->page.code == -ENOTUNIQ ? replaced_words(a) : error_words(k->page.code));
	else if (k->page.stage == ATTEMPT_NO_EXEC)
		text_appendf(words, "cannot execute '%s': %s", a->front ? a->front->argv[0] : "/bin/sh",
			error_words(k->page.code));
	else if (k->reason)
		text_append_string(words, k->reason);
	else if (e->exit_code == 0)
		e->state = JOB_COMPLETED;
	else if (ran_out_of_memory(k, e))
		text_append_string(words, REASON_GPU_MEMORY);
	if (k->reason && strcmp(k->reason, REASON_CANCELLED) == 0)
		e->state = JOB_CANCELLED;
	if (k->reason && strcmp(k->reason, REASON_INTERRUPTED) == 0) {
		e->interrupted = true;
		e->hook_due = false;
	}
	if (is_checkpoint(k, e))
		requeue(k, e, words);
	if (words->length)
		e->reason = text_string(words);
}

void keeper_wait_for_journal(struct keeper *k)
{
	poll(NULL, 0, WRITE_AGAIN_MS);
	int limit_ms = journal_absence_limit_ms(k->journal);
	k->removed_ms = limit_ms ? k->removed_ms + WRITE_AGAIN_MS : 0;
	if (limit_ms && k->removed_ms > limit_ms)
		keeper_leave(k);
}

/* Until the line is written, this keeper's lock shows that the line is still to come. */
void keeper_append(struct keeper *k, const struct text *line)
{
	bool told = false;
	int r;
	if (journal_is_removed(k->journal))
		keeper_leave(k);
	while ((r = journal_append_line(k->journal, line->data, line->length, NULL)) < 0) {
		if (!told)
			keeper_send_note(k, KEEPER_NOTE_BLOCKED, k->attempt.order.id, r);
		told = true;
		keeper_wait_for_journal(k);
	}
}

/*
 * The job's first process was killed before it could report whether it had started: check the journal.
 * Takes the lock once, which truncates a torn line.
 */
static bool start_is_written(struct keeper *k)
{
	struct follow f;
	const struct keeper_order *o = &k->attempt.order;
	while (journal_lock(k->journal, NULL) < 0)
		keeper_wait_for_journal(k);
	journal_unlock(k->journal);
	while (follow_open_journal(k->journal, &f, NULL) < 0)
		keeper_wait_for_journal(k);
	const struct job *job = jobs_find(&f.jobs, o->id);
	bool written = job && job->state == JOB_RUNNING && job->attempts->attempt == o->attempt && job->keeper &&
		       strcmp(job->keeper->name, k->name) == 0;
	follow_close(&f);
	return written;
}

/* Retries until there is memory: the end must not be lost. */
static void format_end(struct text *line, const struct attempt_end *e)
{
	for (;;) {
		record_write_end(line, e);
		if (!text_error(line))
			return;
		poll(NULL, 0, WRITE_AGAIN_MS);
		text_clear(line);
	}
}

void keeper_finish_job(struct keeper *k)
{
	cleanup_(text_finish) struct text line = {0};
	cleanup_(text_finish) struct text words = {0};
	uint64_t id = k->attempt.order.id;
	k->phase = KEEPER_IDLE;
	keeper_claim_leave(&k->claim);
	if (k->page.stage == ATTEMPT_FORKED && start_is_written(k))
		k->page.stage = ATTEMPT_STARTED;
	if (k->page.stage <= ATTEMPT_REFUSED) {
		attempt_log_remove(&k->attempt.log);
		(void)keeper_job_clear(k->lock_fd);
		keeper_send_note_and_ready(
			k, KEEPER_NOTE_REFUSED, id, k->page.stage == ATTEMPT_REFUSED ? k->page.code : -ECANCELED);
	} else {
		struct attempt_end e;
		attempt_log_trim(&k->attempt.log, clock_now_ns());
		describe_end(k, &e, &words);
		format_end(&line, &e);
		keeper_append(k, &line);
		/* If this fails, a retry of a job that became unknown is refused for longer than necessary. */
		(void)keeper_job_clear(k->lock_fd);
		if (k->lease)
			keeper_lease_ended(k, e.reason);
		if (e.hook_due) {
			keeper_send_note(k, KEEPER_NOTE_ENDED, id, (int)e.state);
			keeper_hook_after_end(k, &line);
		} else {
			keeper_send_note_and_ready(k, KEEPER_NOTE_ENDED, id, (int)e.state);
		}
	}
	attempt_finish(&k->attempt);
}
