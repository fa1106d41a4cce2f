/* SPDX-License-Identifier: MIT */
/*
 * A persistent program. Where it breaks the protocol, or its time is over, the
 * file's failure is told, then this worker leaves: the pool makes another, with the
 * limits that setups have.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "launch/file_task.h"
#include "launch/message.h"
#include "launch/program.h"
#include "launch/worker_hooks.h"

#define LOOK_MS   20 /* how often gd_worker_cancelled() is looked at: there is no descriptor for it */
#define WORDS_MAX 900

struct state {
	struct program program;
	char said[128]; /* the last line that was no message */
};

/* ---- Hearing ------------------------------------------------------------ */

/* Libraries print what they like: that goes where the log goes. */
static void pass_on(struct state *s, const char *line, size_t size)
{
	utf8_copy_line(s->said, sizeof(s->said), line, size);
	(void)file_write_all(STDERR_FILENO, line, size);
	(void)file_write_all(STDERR_FILENO, "\n", 1);
}

static bool looks_like_message(const char *line, size_t size)
{
	size_t i = 0;
	while (i < size && (line[i] == ' ' || line[i] == '\t'))
		i++;
	return i < size && line[i] == '{';
}

/*
 * One thing that it says: 1 and a message, 0 for nothing (in that time, or nothing
 * that counts), or a negative value with the words why there is no more to come.
 */
static int hear(struct state *s, int timeout_ms, struct message *ret, char words[WORDS_MAX])
{
	const char *line, *why;
	size_t size;
	int r = program_talk(&s->program, timeout_ms, &line, &size);
	if (r < 0) {
		snprintf(words, WORDS_MAX, "%s", error_words(r));
		return r;
	}
	if (r == PROGRAM_NOTHING)
		return 0;
	if (r == PROGRAM_ENDED) {
		program_end_words(&s->program, words, WORDS_MAX);
		return -EPIPE;
	}
	if (!looks_like_message(line, size)) {
		pass_on(s, line, r == PROGRAM_LONG_LINE ? 128 : size);
		return 0;
	}
	char beginning[128];
	utf8_copy_line(beginning, sizeof(beginning), line, size);
	if (r == PROGRAM_LONG_LINE) {
		snprintf(words, WORDS_MAX, "it said a line of more than %u bytes: %s", PROGRAM_LINE_MAX, beginning);
		return -EMSGSIZE;
	}
	r = message_read(line, size, ret, &why);
	if (r < 0) {
		snprintf(words, WORDS_MAX, "it said what cannot be understood: %s: %s", why, beginning);
		return r;
	}
	if (ret->kind == MESSAGE_OTHER)
		pass_on(s, line, size);
	return ret->kind != MESSAGE_OTHER;
}

/* ---- Setup -------------------------------------------------------------- */

static int await_ready(struct state *s, int64_t timeout_ms, char words[WORDS_MAX])
{
	uint64_t deadline = timeout_ms ? clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS : UINT64_MAX;
	for (;;) {
		struct message m;
		int left_ms = deadline == UINT64_MAX ? -1 : clock_ms_until(deadline, clock_now_ns());
		int r = hear(s, left_ms, &m, words);
		if (r < 0)
			return r;
		if (r > 0 && m.kind == MESSAGE_READY)
			return 0;
		if (r > 0 && m.kind == MESSAGE_ERROR) {
			snprintf(words, WORDS_MAX, "%s", m.error[0] ? m.error : "it said no reason");
			return -EIO;
		}
		if (r > 0) {
			snprintf(words, WORDS_MAX, "it answered before it was ready");
			return -EPROTO;
		}
		if (clock_now_ns() >= deadline) {
			snprintf(words, WORDS_MAX,
				"it was not ready after %.3g s (does it flush its output after each line?)%s%s",
				(double)timeout_ms / 1000, s->said[0] ? "; the last it said was: " : "", s->said);
			return -ETIMEDOUT;
		}
	}
}

static int begin(struct gd_worker *w, struct state *s, char words[WORDS_MAX])
{
	const struct launch_worker *worker = gd_worker_context(w);
	int r = program_start(&s->program, (char *const *)worker->argv);
	if (r < 0) {
		snprintf(words, WORDS_MAX, "it could not be executed: %s", error_words(r));
		return r;
	}
	message_put_setup(&s->program.out, gd_worker_gpu(w), gd_worker_device(w), gd_worker_seed(w), worker->settings,
		worker->num_settings);
	return await_ready(s, worker->ready_timeout_ms, words);
}

/* The command as it was typed, or its first word. */
static const char *name_of(const struct launch_worker *worker)
{
	const char *const *argv = worker->argv;
	bool shell = strcmp(argv[0], "/bin/sh") == 0 && argv[1] && strcmp(argv[1], "-c") == 0 && argv[2];
	return shell ? argv[2] : argv[0];
}

static int setup(struct gd_worker *w, void **ret_state)
{
	signal(SIGPIPE, SIG_IGN);
	/* Python holds back what it prints to a pipe; everybody forgets that once. */
	if (setenv("PYTHONUNBUFFERED", "1", 0) < 0)
		return -errno;
	struct state *s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->program = PROGRAM_NONE;
	char words[WORDS_MAX] = "";
	int r = begin(w, s, words);
	if (r < 0) {
		program_end(&s->program);
		free(s);
		return gd_worker_fail(w, r, "'%.200s': %s", name_of(gd_worker_context(w)), words);
	}
	*ret_state = s;
	return 0;
}

/* ---- A file ------------------------------------------------------------- */

/* 0 and the answer to this task, or a negative value with the words; *ret_told: it was told to end. */
static int await_answer(
	struct gd_worker *w, struct state *s, int64_t id, struct message *ret, bool *ret_told, char words[WORDS_MAX])
{
	bool told = false;
	for (;;) {
		int r = hear(s, LOOK_MS, ret, words);
		if (r < 0)
			return r;
		if (r > 0 && ret->kind == MESSAGE_ERROR) {
			snprintf(words, WORDS_MAX, "%s", ret->error[0] ? ret->error : "it said no reason");
			return -EIO;
		}
		if (r > 0 && ret->kind == MESSAGE_ANSWER && ret->id != id) {
			snprintf(words, WORDS_MAX, "it answered for task %lld, and was working on task %lld",
				(long long)ret->id, (long long)id);
			return -EPROTO;
		}
		if (r > 0 && ret->kind == MESSAGE_ANSWER) {
			if (!ret->ok && !ret->error[0])
				snprintf(ret->error, sizeof(ret->error), "the program said no reason");
			return 0;
		}
		if (!told && gd_worker_cancelled(w, 0)) {
			*ret_told = told = true;
			child_signal(&s->program.child, SIGTERM);
		}
	}
}

/* Tells the failure, then leaves the rest to a fresh worker. */
static _Noreturn void leave(struct gd_worker *w, struct state *s, int code, const char *words)
{
	if (words)
		gd_worker_batch_fail(w, 0, code, "%s", words);
	program_end(&s->program);
	_exit(1);
}

/* A batch of one: then its answer can leave before this process does. */
static int process(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t num_tasks)
{
	(void)num_tasks;
	struct state *s = state;
	struct gd_file file;
	int r = file_task_read(&tasks[0], &file);
	if (r < 0)
		return gd_worker_fail(w, r, "the task is no file");
	char words[WORDS_MAX] = "";
	/* One that left between two files (after so many of them, say) has done no harm. */
	if (!program_lives(&s->program)) {
		child_end(&s->program.child);
		r = begin(w, s, words);
		if (r < 0)
			leave(w, s, r, words);
	}
	int64_t id = (int64_t)gd_worker_task_id(w, 0);
	message_put_task(&s->program.out, (uint64_t)id, &file);
	struct message m = {0};
	bool told = false;
	r = await_answer(w, s, id, &m, &told, words);
	if (r < 0)
		leave(w, s, told ? -ECANCELED : r, words);
	if (m.ok && m.seconds < 0 && file.known & GD_KNOWN_SECONDS)
		m.seconds = file.seconds;
	if (!told && !m.ok)
		return gd_worker_fail(w, -EIO, "%s", m.error);
	if (!told)
		return m.seconds >= 0 ? gd_worker_file_seconds(w, m.seconds) : 0;
	/* It may be about to end, for it was told to. */
	if (m.ok)
		gd_worker_batch_result(w, 0, &m.seconds, sizeof(m.seconds));
	leave(w, s, -ECANCELED, m.ok ? NULL : m.error);
}

static int cleanup(struct gd_worker *w, void *state)
{
	struct state *s = state;
	int r = 0;
	if (program_lives(&s->program)) {
		program_leave(&s->program);
		char words[WORDS_MAX];
		child_words(&s->program.child, words, sizeof(words));
		if (s->program.child.status != 0)
			r = gd_worker_fail(w, -EIO, "the program ended with %s", words);
	}
	program_end(&s->program);
	free(s);
	return r;
}

const struct gd_worker_ops program_worker_ops = {.size = sizeof(struct gd_worker_ops),
	.setup = setup,
	.process_batch = process,
	.max_batch = 1,
	.cleanup = cleanup};
