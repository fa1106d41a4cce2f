/* SPDX-License-Identifier: MIT */
/* The end of a job: its line in the journal, the note to the runner, and the job's hook. */
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
#include "queue/keeper/hook.h"
#include "queue/keeper/keeper_news.h"
#include "queue/keeper/keeper_private.h"
#include "queue/keeper/oom.h"

/* How soon a line that could not be written is tried again. */
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

bool keeper_hear_news(struct keeper *k)
{
	struct keeper_news news;
	const struct keeper_order *o = &k->attempt.order;
	if (k->runner_fd >= 0 || keeper_news_read(k->lock_fd, &news) < 0 || news.id != o->id ||
		news.attempt != o->attempt)
		return false;
	if (news.peak_mem_mb > k->peak_mem_mb)
		k->peak_mem_mb = news.peak_mem_mb;
	k->gpu_full = news.gpu_full;
	return news.gpu_lost;
}

static void describe_end(struct keeper *k, struct attempt_end *e, struct text *words)
{
	const struct attempt *a = &k->attempt;
	keeper_hear_news(k);
	*e = (struct attempt_end){
		.id = a->order.id, .attempt = a->order.attempt, .exit_code = -1, .peak_mem_mb = k->peak_mem_mb};
	e->duration_ms = (int64_t)((clock_now_ns() - k->started_ns) / NS_PER_MS);
	e->state = JOB_FAILED;
	if (WIFSIGNALED(k->status))
		e->signal = WTERMSIG(k->status);
	else
		e->exit_code = WEXITSTATUS(k->status);
	if (k->page->stage == ATTEMPT_NO_DIRECTORY)
		text_appendf(words, "entering directory '%s': %s", a->cwd,
			k->page->code == -ENOTUNIQ
				? "others can write it now, or have put it in place of the one in which the job was added"
				: error_words(k->page->code));
	else if (k->page->stage == ATTEMPT_NO_EXEC)
		text_appendf(words, "executing /bin/sh: %s", error_words(k->page->code));
	else if (k->reason)
		text_append_string(words, k->reason);
	else if (e->exit_code == 0)
		e->state = JOB_COMPLETED;
	else if (ran_out_of_memory(k, e))
		text_append_string(words, REASON_GPU_MEMORY);
	if (k->reason && strcmp(k->reason, REASON_CANCELLED) == 0)
		e->state = JOB_CANCELLED;
	if (words->length)
		e->reason = text_string(words);
}

/* Waits before the next try to write. Leaves if the journal's folder has been missing for too long. */
static void wait_for_journal(struct keeper *k)
{
	poll(NULL, 0, WRITE_AGAIN_MS);
	int limit_ms = journal_absence_limit_ms(k->journal);
	k->removed_ms = limit_ms ? k->removed_ms + WRITE_AGAIN_MS : 0;
	if (limit_ms && k->removed_ms > limit_ms)
		keeper_leave(k);
}

/* Tries until it is written. Meanwhile this keeper's lock tells others that the end is still to come. */
static void append_end(struct keeper *k, const struct text *line)
{
	bool told = false;
	int r;
	while ((r = journal_append_line(k->journal, line->data, line->length, NULL)) < 0) {
		if (!told)
			keeper_send_note(k, KEEPER_NOTE_BLOCKED, k->attempt.order.id, r);
		told = true;
		wait_for_journal(k);
	}
}

/*
 * The job's first process was killed before it could say whether it had started: look
 * into the journal. The lock is taken once, which truncates a torn line.
 */
static bool start_is_written(struct keeper *k)
{
	struct follow f;
	const struct keeper_order *o = &k->attempt.order;
	while (journal_lock(k->journal, NULL) < 0)
		wait_for_journal(k);
	journal_unlock(k->journal);
	while (follow_open_journal(k->journal, &f, NULL) < 0)
		wait_for_journal(k);
	const struct job *job = jobs_find(&f.jobs, o->id);
	bool written = job && job->state == JOB_RUNNING && job->attempts->attempt == o->attempt && job->keeper &&
		       strcmp(job->keeper->name, k->name) == 0;
	follow_close(&f);
	return written;
}

/* Waits for memory: the end must not be lost. */
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

/* A process of the hook that does not die would be taken for one of the next job: leave that to another keeper. */
void keeper_after_hook(struct keeper *k, int result)
{
	if (result == -ETIMEDOUT)
		keeper_leave(k);
	keeper_send_note(k, KEEPER_NOTE_READY, 0, 0);
}

/* Reads the job before its end is written: afterwards a prune may take it out. The hook runs after the note to the
 * runner. */
static void end_with_hook(struct keeper *k, const struct text *line, enum job_state state)
{
	cleanup_(text_finish) struct text input = {0};
	struct jobs js;
	uint64_t id = k->attempt.order.id;
	int r;
	/* Another user has put a journal in place: the end cannot be written either, before the right one is back. */
	while ((r = hook_read_job(k->journal, id, &js)) == -EPERM)
		wait_for_journal(k);
	append_end(k, line);
	keeper_send_note(k, KEEPER_NOTE_ENDED, id, (int)state);
	if (r == 0) {
		r = hook_describe(&js, id, line, &input);
		jobs_finish(&js);
	}
	/* If there is no memory for the whole job, the hook gets the end alone. */
	keeper_after_hook(k, hook_run(&k->attempt, r == 0 ? &input : line, k->signal_fd));
}

void keeper_finish_job(struct keeper *k)
{
	cleanup_(text_finish) struct text line = {0};
	cleanup_(text_finish) struct text words = {0};
	uint64_t id = k->attempt.order.id;
	k->phase = KEEPER_IDLE;
	keeper_claim_leave(&k->claim);
	if (k->page->stage == ATTEMPT_FORKED && start_is_written(k))
		k->page->stage = ATTEMPT_STARTED;
	if (k->page->stage <= ATTEMPT_REFUSED) {
		attempt_log_remove(&k->attempt.log);
		keeper_send_note_and_ready(
			k, KEEPER_NOTE_REFUSED, id, k->page->stage == ATTEMPT_REFUSED ? k->page->code : -ECANCELED);
	} else {
		struct attempt_end e;
		attempt_log_trim(&k->attempt.log, clock_now_ns());
		describe_end(k, &e, &words);
		format_end(&line, &e);
		if (*k->attempt.on_finish) {
			end_with_hook(k, &line, e.state);
		} else {
			append_end(k, &line);
			keeper_send_note_and_ready(k, KEEPER_NOTE_ENDED, id, (int)e.state);
		}
	}
	attempt_finish(&k->attempt);
}
