/* SPDX-License-Identifier: MIT */
#include "launch/session.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "launch/worker_hooks.h"

/* ---- Receiving ---------------------------------------------------------- */

/* Libraries may print anything: pass it on to the log. */
static void pass_on(struct session *s, const char *line, size_t size)
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

int session_hear(struct session *s, int timeout_ms, struct message *ret, char words[SESSION_WORDS_MAX])
{
	const char *line, *why;
	size_t size;
	int r = program_talk(&s->program, timeout_ms, &line, &size);
	if (r < 0) {
		snprintf(words, SESSION_WORDS_MAX, "%s", error_words(r));
		return r;
	}
	if (r == PROGRAM_NOTHING)
		return 0;
	if (r == PROGRAM_ENDED) {
		program_end_words(&s->program, words, SESSION_WORDS_MAX);
		return -EPIPE;
	}
	if (!looks_like_message(line, size)) {
		pass_on(s, line, r == PROGRAM_LONG_LINE ? 128 : size);
		return 0;
	}
	char beginning[128];
	bool too_long = r == PROGRAM_LONG_LINE;
	r = too_long ? -EMSGSIZE : message_read(line, size, ret, &why);
	if (r < 0)
		utf8_copy_line(beginning, sizeof(beginning), line, size);
	if (too_long)
		snprintf(words, SESSION_WORDS_MAX, "it printed a line of more than %zu bytes: %s", s->program.line_max,
			beginning);
	else if (r < 0)
		snprintf(words, SESSION_WORDS_MAX, "it printed an invalid message: %s: %s", why, beginning);
	if (r < 0)
		return r;
	if (ret->kind == MESSAGE_OTHER)
		pass_on(s, line, size);
	return ret->kind != MESSAGE_OTHER;
}

/* ---- Setup -------------------------------------------------------------- */

static int await_ready(struct session *s, int64_t timeout_ms, char words[SESSION_WORDS_MAX])
{
	uint64_t deadline = timeout_ms ? clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS : UINT64_MAX;
	for (;;) {
		struct message m;
		int left_ms = deadline == UINT64_MAX ? -1 : clock_ms_until(deadline, clock_now_ns());
		int r = session_hear(s, left_ms, &m, words);
		if (r == -EPIPE) {
			char how[SESSION_WORDS_MAX];
			memcpy(how, words, sizeof(how));
			snprintf(words, SESSION_WORDS_MAX, "it ended before it was ready: %.*s", SESSION_WORDS_MAX - 40,
				how);
		}
		if (r < 0)
			return r;
		if (r > 0 && m.kind == MESSAGE_READY)
			return 0;
		if (r > 0 && m.kind == MESSAGE_ERROR) {
			snprintf(words, SESSION_WORDS_MAX, "%s", m.error[0] ? m.error : "no reason given");
			return -EIO;
		}
		if (r > 0) {
			snprintf(words, SESSION_WORDS_MAX, "it answered before it was ready");
			return -EPROTO;
		}
		if (clock_now_ns() >= deadline) {
			snprintf(words, SESSION_WORDS_MAX,
				"it was not ready after %.3g s (does it flush its output after each line?)%s%s",
				(double)timeout_ms / 1000, s->said[0] ? "; its last output was: " : "", s->said);
			return -ETIMEDOUT;
		}
	}
}

int session_begin(struct gd_worker *w, struct session *s, char words[SESSION_WORDS_MAX])
{
	const struct launch_worker *worker = gd_worker_context(w);
	int r = program_start(&s->program, (char *const *)worker->argv);
	if (r < 0) {
		snprintf(words, SESSION_WORDS_MAX, "cannot execute it: %s", error_words(r));
		return r;
	}
	message_put_setup(&s->program.out, gd_worker_gpu(w), gd_worker_device(w), gd_worker_seed(w), worker->settings,
		worker->num_settings);
	return await_ready(s, worker->ready_timeout_ms, words);
}

/* The command as typed, or its first word. */
static const char *name_of(const struct launch_worker *worker)
{
	const char *const *argv = worker->argv;
	bool shell = strcmp(argv[0], "/bin/sh") == 0 && argv[1] && strcmp(argv[1], "-c") == 0 && argv[2];
	return shell ? argv[2] : argv[0];
}

int session_open(struct gd_worker *w, size_t line_max, struct session **ret)
{
	signal(SIGPIPE, SIG_IGN);
	/* Python buffers output to a pipe, and users forget to flush it. */
	if (setenv("PYTHONUNBUFFERED", "1", 0) < 0)
		return -errno;
	struct session *s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->program = PROGRAM_NONE;
	s->program.line_max = line_max;
	char words[SESSION_WORDS_MAX] = "";
	int r = session_begin(w, s, words);
	if (r < 0) {
		program_end(&s->program);
		free(s);
		return gd_worker_fail(w, r, "'%.200s': %s", name_of(gd_worker_context(w)), words);
	}
	*ret = s;
	return 0;
}

/* ---- The end ------------------------------------------------------------ */

int session_close(struct gd_worker *w, struct session *s)
{
	int r = 0;
	if (program_lives(&s->program)) {
		program_leave(&s->program);
		char words[SESSION_WORDS_MAX];
		child_words(&s->program.child, words, sizeof(words));
		if (s->program.child.status != 0)
			r = gd_worker_fail(w, -EIO, "the program ended with %s", words);
	}
	program_end(&s->program);
	free(s);
	return r;
}
