/* SPDX-License-Identifier: MIT */
/*
 * The hook of an end, run by a keeper: sync the journal, append `hook` with the number of the try, run
 * the hook, append `hook` with its outcome. If the keeper is killed in between, a runner sees that the
 * hook is still due and orders another run, HOOK_TRIES in total.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "queue/journal/record.h"
#include "queue/keeper/hook.h"
#include "queue/keeper/hook_log.h"
#include "queue/keeper/keeper_private.h"

/* Delay and number of retries if a hook cannot be forked. */
#define FORK_AGAIN_MS 200
#define FORK_TRIES    50

/* The end that a hook reports must survive a power cut. Do not wait for a file system that cannot sync. */
static void sync_end(struct keeper *k)
{
	int r;
	while ((r = journal_sync(k->journal, NULL)) < 0 && r != -EINVAL && r != -EROFS && r != -ENOTSUP)
		keeper_wait_for_journal(k);
}

static void write_line(struct text *line, const struct hook_record *h)
{
	do {
		text_clear(line);
		record_write_hook(line, h);
	} while (text_error(line) && poll(NULL, 0, FORK_AGAIN_MS) <= 0);
}

/* Under the fence of the runner that gave the order: another runner may have given the hook to another keeper. */
static int append_fenced(struct keeper *k, const struct text *line)
{
	int r = journal_lock(k->journal, NULL);
	if (r < 0)
		return r;
	r = k->journal->fence == k->attempt.order.fence
		    ? journal_append(k->journal, line->data, line->length, NULL, NULL)
		    : -ESTALE;
	journal_unlock(k->journal);
	return r;
}

static void append_outcome(struct keeper *k, struct hook_record *h)
{
	cleanup_(text_finish) struct text line = {0};
	h->state = h->exit_code == 0 ? JOB_COMPLETED : JOB_FAILED;
	write_line(&line, h);
	keeper_append(k, &line);
}

static void run(struct keeper *k, struct hook_record *h, const struct text *input)
{
	int status = 0, r, tries = 0;
	cleanup_(closep) int log_fd = hook_log_open(k->journal->dir_fd, &k->attempt);
	while ((r = hook_run(&k->attempt, h->try_number, input, log_fd, k->signal_fd, &status, &k->interrupted)) < 0 &&
		r != -ETIMEDOUT && ++tries < FORK_TRIES)
		poll(NULL, 0, FORK_AGAIN_MS);
	/* Nothing was run, and this keeper cannot run it; another keeper may be able to, later. */
	if (r < 0 && r != -ETIMEDOUT)
		keeper_leave(k);
	h->exit_code = r == 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	h->signal = r == 0 && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	h->reason = r == -ETIMEDOUT ? REASON_STUCK : NULL;
	append_outcome(k, h);
	/* A process of the hook that does not die would be mistaken for one of the next job: leave that job to another
	 * keeper. */
	if (r == -ETIMEDOUT)
		keeper_leave(k);
}

/* The runner has written the same line to the journal, but the keeper does not read the journal. */
static void write_idle(const struct keeper *k, struct text *lines)
{
	int gpus[64];
	struct idle_record i = {.id = k->attempt.order.id,
		.attempt = k->attempt.order.attempt,
		.time_ms = k->idle_at_ms,
		.gpus = gpus,
		.since_ms = k->idle_since_ms,
		.idle_ms = k->idle_ms};
	if (!k->idle_at_ms)
		return;
	for (uint32_t n = 0; n < k->attempt.order.num_gpus && n < 64; n++)
		if (k->idle_gpus >> n & 1)
			gpus[i.num_gpus++] = k->attempt.gpus[n];
	record_write_idle(lines, &i);
}

void keeper_hook_after_end(struct keeper *k, const struct text *end_line)
{
	cleanup_(text_finish) struct text lines = {0};
	cleanup_(text_finish) struct text input = {0};
	cleanup_(text_finish) struct text line = {0};
	const struct keeper_order *o = &k->attempt.order;
	int r = keeper_write_own_line(k, &lines);
	text_append_string(&lines, k->attempt.input);
	attempt_write_start(&k->attempt, k->name, k->pid, k->page.start_ms, &lines);
	write_idle(k, &lines);
	if (k->cancel_asked)
		record_write_control(&lines, EVENT_CANCEL, o->id, NULL);
	text_append(&lines, end_line->data, end_line->length);
	/* If there is not enough memory for the whole job, the hook gets only the end. */
	bool described = r == 0 && !text_error(&lines) && hook_describe_lines(&lines, o->id, &input) == 0;
	struct hook_record h = {.id = o->id, .attempt = o->attempt, .try_number = 1, .keeper = k->name};
	sync_end(k);
	write_line(&line, &h);
	keeper_append(k, &line);
	run(k, &h, described ? &input : end_line);
	keeper_send_note(k, KEEPER_NOTE_READY, 0, 0);
}

static bool is_of_the_job(int code)
{
	return code == -ENOENT || code == -EBADMSG || code == -EACCES || code == -EPERM || code == -ENOTDIR ||
	       code == -EISDIR || code == -ELOOP || code == -EINVAL || code == -EFBIG;
}

static int run_ordered(struct keeper *k, const struct keeper_order *order)
{
	cleanup_(text_finish) struct text line = {0};
	char *input = k->attempt.payload + (k->attempt.input - k->attempt.payload);
	struct hook_record h = {.id = order->id,
		.idle = order->hook_idle,
		.attempt = order->attempt,
		.try_number = order->hook_try,
		.keeper = k->name};
	int prepared = attempt_prepare_hook(&k->attempt, k->journal, k->name, &k->cache);
	if (prepared < 0 && !is_of_the_job(prepared))
		return prepared;
	sync_end(k);
	write_line(&line, &h);
	int r = append_fenced(k, &line);
	if (r < 0)
		return r;
	if (prepared == 0) {
		run(k, &h, &(struct text){.data = input, .length = strlen(input)});
	} else {
		h.exit_code = -1;
		h.reason = "its environment cannot be read";
		append_outcome(k, &h);
	}
	return 0;
}

void keeper_hook_ordered(struct keeper *k, const struct keeper_order *order, char *payload)
{
	int r = attempt_init(&k->attempt, order, payload);
	if (r == 0)
		r = keeper_open(k);
	if (r == 0)
		r = run_ordered(k, order);
	attempt_finish(&k->attempt);
	if (r < 0)
		keeper_send_note_and_ready(k, KEEPER_NOTE_REFUSED, order->id, r);
	else
		keeper_send_note(k, KEEPER_NOTE_READY, 0, 0);
}
