/* SPDX-License-Identifier: MIT */
/*
 * A persistent program. If it breaks the protocol or exceeds its time limit, the file's failure is reported, then this
 * worker exits: the pool starts another, within the limits for setups.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "launch/file_task.h"
#include "launch/message.h"
#include "launch/session.h"
#include "launch/worker_hooks.h"
#include "launch/worker_note.h"

#define LOOK_MS  20 /* how often to poll gd_worker_cancelled(): there is no descriptor for it */
#define ANSWERED 16 /* tasks to remember, to distinguish a second answer from a wrong one */

struct conversation {
	struct session *session;
	int64_t answered[ANSWERED]; /* the last tasks that the program answered; -1: none */
	size_t num_answered;
};

static void forget_answered(struct conversation *s)
{
	s->num_answered = 0;
	for (size_t i = 0; i < ANSWERED; i++)
		s->answered[i] = -1;
}

static bool was_answered(const struct conversation *s, int64_t id)
{
	for (size_t i = 0; i < ANSWERED; i++)
		if (id >= 0 && s->answered[i] == id)
			return true;
	return false;
}

/*
 * 0 and the answer to this task, or a negative value with the reason in `words`; *ret_told: the program was told to
 * end. -EALREADY: it answered an earlier task again; its id is in ret->id.
 */
static int await_answer(struct gd_worker *w, const struct conversation *s, int64_t id, struct message *ret,
	bool *ret_told, char words[SESSION_WORDS_MAX])
{
	bool told = false;
	for (;;) {
		int r = session_hear(s->session, LOOK_MS, ret, words);
		if (r < 0)
			return r;
		if (r > 0 && ret->kind == MESSAGE_ERROR) {
			snprintf(words, SESSION_WORDS_MAX, "%s", ret->error[0] ? ret->error : "no reason given");
			return -EIO;
		}
		if (r > 0 && ret->kind == MESSAGE_ANSWER && ret->id != id && was_answered(s, ret->id))
			return -EALREADY;
		if (r > 0 && ret->kind == MESSAGE_ANSWER && ret->id != id) {
			snprintf(words, SESSION_WORDS_MAX, "it answered task %lld while it was working on task %lld",
				(long long)ret->id, (long long)id);
			return -EPROTO;
		}
		if (r > 0 && ret->kind == MESSAGE_ANSWER) {
			if (!ret->ok && !ret->error[0])
				snprintf(ret->error, sizeof(ret->error), "no reason given by the program");
			return 0;
		}
		if (!told && gd_worker_cancelled(w, 0)) {
			*ret_told = told = true;
			child_signal(&s->session->program.child, SIGTERM);
		}
	}
}

/* Reports the failure, then leaves the rest to a fresh worker. */
static _Noreturn void leave(
	struct gd_worker *w, struct conversation *s, int code, const char *words, const char *explanation)
{
	if (words)
		gd_worker_batch_fail(w, 0, code, "%s%s", words, explanation);
	program_end(&s->session->program);
	_exit(1);
}

/* Starts a fresh program in this worker for its current file. `warning` is for users, or "". */
static void start_again(struct gd_worker *w, struct conversation *s, const char *warning)
{
	struct worker_note note = {0};
	char words[SESSION_WORDS_MAX] = "";
	uint64_t begin_ns = clock_now_ns();
	snprintf(note.warning, sizeof(note.warning), "%s", warning);
	if (*warning)
		fprintf(stderr, "gpuq-worker: %s\n", warning);
	child_end(&s->session->program.child);
	forget_answered(s);
	int r = session_begin(w, s->session, words);
	note.loading_ns = clock_now_ns() - begin_ns;
	(void)gd_worker_send(w, &note, sizeof(note)); /* without memory, the note is lost */
	if (r < 0)
		leave(w, s, r, words, "");
}

/* Sends the file and waits for its answer. A program that answers an earlier file again is replaced first. */
static int converse(struct gd_worker *w, struct conversation *s, const struct gd_file *file, struct message *ret,
	bool *ret_told, char words[SESSION_WORDS_MAX])
{
	struct program *program = &s->session->program;
	int64_t id = (int64_t)gd_worker_task_id(w, 0);
	message_put_task(&program->out, (uint64_t)id, file);
	int r = await_answer(w, s, id, ret, ret_told, words);
	if (r == -EALREADY) {
		char warning[160];
		snprintf(warning, sizeof(warning),
			"its program answered task %lld twice; a fresh one was started for the next file",
			(long long)ret->id);
		start_again(w, s, warning);
		message_put_task(&program->out, (uint64_t)id, file);
		r = await_answer(w, s, id, ret, ret_told, words);
	}
	if (r == 0)
		s->answered[s->num_answered++ % ANSWERED] = id;
	return r;
}

/* A batch of one, so that its answer can be sent before this process exits. */
static int process(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t num_tasks)
{
	(void)num_tasks;
	struct conversation *s = state;
	struct gd_file file;
	int r = file_task_read(&tasks[0], &file);
	if (r < 0)
		return gd_worker_fail(w, r, "the task is not a file");
	char words[SESSION_WORDS_MAX] = "";
	/* It is fine for a program to exit between two files, for example after a number of them. */
	if (!program_lives(&s->session->program))
		start_again(w, s, "");
	struct message m = {0};
	bool told = false;
	r = converse(w, s, &file, &m, &told, words);
	if (r < 0)
		leave(w, s, told ? -ECANCELED : r, words, told ? "" : message_explain_task(&file));
	if (m.ok && m.seconds < 0 && file.known & GD_KNOWN_SECONDS)
		m.seconds = file.seconds;
	if (!told && !m.ok)
		return gd_worker_fail(w, -EIO, "%s%s", m.error, message_explain_task(&file));
	if (!told)
		return m.seconds >= 0 ? gd_worker_file_seconds(w, m.seconds) : 0;
	/* The program may be about to exit, because it was told to. */
	if (m.ok)
		gd_worker_batch_result(w, 0, &m.seconds, sizeof(m.seconds));
	leave(w, s, -ECANCELED, m.ok ? NULL : m.error, "");
}

static int setup(struct gd_worker *w, void **ret_state)
{
	struct conversation *s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	forget_answered(s);
	int r = session_open(w, PROGRAM_LINE_MAX, &s->session);
	if (r < 0)
		free(s);
	else
		*ret_state = s;
	return r;
}

static int cleanup(struct gd_worker *w, void *state)
{
	struct conversation *s = state;
	int r = session_close(w, s->session);
	free(s);
	return r;
}

const struct gd_worker_ops program_worker_ops = {.size = sizeof(struct gd_worker_ops),
	.setup = setup,
	.process_batch = process,
	.max_batch = 1,
	.cleanup = cleanup};
