/* SPDX-License-Identifier: MIT */
/*
 * The worker of gpuq map: a persistent program that gets items.
 *
 * A task of the pool is a message with items, and a batch of the pool is all messages that the program has at a time:
 * all messages of a batch are sent at once, and each is answered as soon as the program has answered it. If the program
 * ends or breaks the protocol, its oldest message is to blame; the others go back as not begun. Then this worker exits,
 * and the pool sets up another.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "launch/items_task.h"
#include "launch/session.h"
#include "launch/worker_hooks.h"

#define LOOK_MS 20 /* how often to poll gd_worker_cancelled(): there is no descriptor for it */

enum flight {
	FLIGHT_WAITING = 0,
	FLIGHT_SENT,
	FLIGHT_ANSWERED,
};

struct items_session {
	struct session *session;
	bool has_answered; /* this program, at least once */
	struct text answer;
	/* The messages of this batch, as many as the pool sent. */
	size_t count, next, answered; /* next: the first that was not sent */
	struct items_task *tasks;
	enum flight *flights;
};

/* ---- Answers ------------------------------------------------------------ */

static struct json_cursor enter(const struct json_value *array)
{
	struct json_cursor c = {0};
	if (array->type == JSON_ARRAY)
		json_enter(&c, array);
	return c;
}

/* The value as in the text: a string includes its quotes. */
static void put_result(struct text *t, const struct json_value *v)
{
	bool string = v->type == JSON_STRING;
	items_answer_put(t, false, v->data - string, v->size + (string ? 2u : 0));
}

static int put_error(struct text *t, const struct json_value *v)
{
	char words[768];
	int r = message_copy_error(v, words, sizeof(words));
	if (r == 0)
		items_answer_put(t, true, words, strnlen(words, sizeof(words)));
	return r;
}

/*
 * Packs results and errors; their number must match the items: 0, or -EBADMSG with the reason. The values were checked
 * when the line was read.
 */
static int pack(struct text *t, const struct message *m, uint32_t count, const char **ret_why)
{
	struct json_cursor results = enter(&m->results), errors = enter(&m->errors);
	bool has_errors = m->errors.type == JSON_ARRAY;
	struct json_value result, error = {.type = JSON_NULL};
	text_clear(t);
	*ret_why = "its answer has no list \"results\"";
	if (m->results.type != JSON_ARRAY)
		return -EBADMSG;
	for (uint32_t i = 0; i < count; i++) {
		*ret_why = "its answer has fewer results than the message had items";
		if (json_next_item(&results, &result) <= 0)
			return -EBADMSG;
		*ret_why = "its answer has fewer errors than the message had items";
		if (has_errors && json_next_item(&errors, &error) <= 0)
			return -EBADMSG;
		if (error.type == JSON_NULL)
			put_result(t, &result);
		else if (put_error(t, &error) < 0)
			return -ENOMEM;
	}
	*ret_why = "its answer has more results than the message had items";
	if (json_next_item(&results, &result) > 0 || (has_errors && json_next_item(&errors, &error) > 0))
		return -EBADMSG;
	*ret_why = "not enough memory for its answer";
	return text_error(t);
}

/* One answer to the i-th message of the batch. */
static void answer(struct gd_worker *w, struct items_session *s, size_t i, const struct message *m)
{
	const char *why;
	s->flights[i] = FLIGHT_ANSWERED;
	s->answered++;
	s->has_answered = true;
	if (!m->ok)
		gd_worker_batch_fail(w, i, m->out_of_memory ? ITEMS_OUT_OF_MEMORY : ITEMS_FAILED, "%s",
			m->error[0] ? m->error : "no reason given by the program");
	else if (pack(&s->answer, m, s->tasks[i].count, &why) < 0)
		gd_worker_batch_fail(w, i, ITEMS_FAILED, "%s", why);
	else
		gd_worker_batch_result(w, i, s->answer.data, s->answer.length);
}

/* ---- The end of a program ----------------------------------------------- */

/* Reports the outcome of messages without an answer, and leaves the rest to a fresh worker. */
static _Noreturn void leave(struct gd_worker *w, struct items_session *s, bool blame, const char *words)
{
	for (size_t i = 0; i < s->count; i++) {
		if (s->flights[i] == FLIGHT_ANSWERED)
			continue;
		gd_worker_batch_fail(w, i, blame ? ITEMS_LOST : ITEMS_NOT_BEGUN, "%s", words);
		blame = false;
	}
	program_end(&s->session->program);
	_exit(1);
}

/* The message that an answer belongs to. A program that answers a message it does not have is not trusted anymore. */
static size_t find(struct gd_worker *w, struct items_session *s, int64_t id)
{
	for (size_t i = 0; i < s->next; i++)
		if ((int64_t)gd_worker_task_id(w, i) == id && s->flights[i] == FLIGHT_SENT)
			return i;
	char words[SESSION_WORDS_MAX];
	snprintf(words, sizeof(words), "the program answered message %lld, which %s", (long long)id,
		s->has_answered ? "it had answered before or never received" : "it never received");
	fprintf(stderr, "gpuq map: %s; replacing it\n", words);
	leave(w, s, !s->has_answered, words);
}

/* ---- A batch ------------------------------------------------------------ */

static bool may_send(const struct items_session *s)
{
	if (s->next == s->count)
		return false;
	bool nothing_out = s->answered == s->next;
	return nothing_out || (!s->tasks[s->next].alone && !s->tasks[s->next - 1].alone);
}

static void send_waiting(struct gd_worker *w, struct items_session *s)
{
	for (; may_send(s); s->next++) {
		const struct items_task *t = &s->tasks[s->next];
		message_put_items(&s->session->program.out, gd_worker_task_id(w, s->next), t->values, t->size);
		s->flights[s->next] = FLIGHT_SENT;
	}
}

static size_t oldest(const struct items_session *s)
{
	size_t i = 0;
	while (s->flights[i] == FLIGHT_ANSWERED)
		i++;
	return i;
}

static void converse(struct gd_worker *w, struct items_session *s)
{
	char words[SESSION_WORDS_MAX] = "";
	bool told = false;
	while (s->answered < s->count) {
		struct message m;
		if (!told)
			send_waiting(w, s);
		int r = session_hear(s->session, LOOK_MS, &m, words);
		if (r < 0)
			leave(w, s, true, words);
		if (r > 0 && m.kind == MESSAGE_ERROR)
			leave(w, s, true, m.error[0] ? m.error : "no reason given by the program");
		if (r > 0 && m.kind == MESSAGE_ANSWER)
			answer(w, s, find(w, s, m.id), &m);
		if (!told && s->answered < s->count && gd_worker_cancelled(w, oldest(s))) {
			told = true;
			child_signal(&s->session->program.child, SIGTERM);
		}
	}
	/* The program may be about to exit, because it was told to. */
	if (told)
		leave(w, s, false, "");
}

static int process(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t num_tasks)
{
	struct items_session *s = state;
	char words[SESSION_WORDS_MAX] = "";
	s->count = num_tasks;
	s->next = s->answered = 0;
	for (size_t i = 0; i < num_tasks; i++) {
		s->flights[i] = FLIGHT_WAITING;
		if (items_task_read(&tasks[i], &s->tasks[i]) < 0)
			return gd_worker_fail(w, -EBADMSG, "the task has no items");
	}
	/* It is fine for a program to end between two messages, for example after a number of them. */
	if (!program_lives(&s->session->program)) {
		child_end(&s->session->program.child);
		s->has_answered = false;
		if (session_begin(w, s->session, words) < 0)
			leave(w, s, true, words);
	}
	converse(w, s);
	return 0;
}

/* ---- Setup and cleanup -------------------------------------------------- */

static int setup(struct gd_worker *w, void **ret_state)
{
	const struct launch_worker *worker = gd_worker_context(w);
	struct items_session *s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->tasks = calloc(worker->in_flight, sizeof(*s->tasks));
	s->flights = calloc(worker->in_flight, sizeof(*s->flights));
	int r = s->tasks && s->flights ? session_open(w, ITEMS_LINE_MAX, &s->session) : -ENOMEM;
	if (r < 0) {
		free(s->tasks);
		free(s->flights);
		free(s);
		return r;
	}
	*ret_state = s;
	return 0;
}

static int cleanup(struct gd_worker *w, void *state)
{
	struct items_session *s = state;
	int r = session_close(w, s->session);
	text_finish(&s->answer);
	free(s->tasks);
	free(s->flights);
	free(s);
	return r;
}

const struct gd_worker_ops items_worker_ops = {
	.size = sizeof(struct gd_worker_ops),
	.setup = setup,
	.process_batch = process,
	.max_batch = 1, /* the number is launch_worker.in_flight */
	.cleanup = cleanup,
};
