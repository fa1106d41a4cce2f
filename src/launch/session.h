/* SPDX-License-Identifier: MIT */
/*
 * A conversation between a worker and its persistent program (docs/worker-protocol.md): setup, messages, end.
 *
 * A program that breaks the protocol is abandoned: the worker reports the failure and exits, and the pool
 * sets up another one. In a worker only: see child.h.
 */
#ifndef LAUNCH_SESSION_H
#define LAUNCH_SESSION_H

#include "gpu_dispatch.h"
#include "launch/message.h"
#include "launch/program.h"

#define SESSION_WORDS_MAX 900

struct session {
	struct program program;
	char said[128]; /* the last line that was not a message */
};

/*
 * For the setup hook: starts the program of the worker's context, a struct launch_worker, and waits until it is ready.
 * A line of the program has at most line_max bytes. 0, or a negative errno value, with a message from gd_worker_fail()
 * if the program failed.
 */
int session_open(struct gd_worker *w, size_t line_max, struct session **ret);
/* For the cleanup hook: ends the input, waits for the program and releases the session. */
int session_close(struct gd_worker *w, struct session *s);

/* Starts the program again after it has ended. 0, or a negative value with the reason in `words`. */
int session_begin(struct gd_worker *w, struct session *s, char words[SESSION_WORDS_MAX]);

/*
 * Sends s->program.out and waits for one message: 1 and the message, which is valid until the next call; 0 after a
 * timeout, or if there was only other output, which goes to the log; a negative value with the reason in `words` if the
 * program has ended or broken the protocol.
 */
int session_hear(struct session *s, int timeout_ms, struct message *ret, char words[SESSION_WORDS_MAX]);

#endif
