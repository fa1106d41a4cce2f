/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_keeper.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/loop.h"
#include "queue/journal/record.h"
#include "queue/keeper/attempt.h"
#include "queue/keeper/nursery.h"
#include "queue/runner/runner_hooks.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_recover.h"
#include "queue/runner/runner_say.h"
#include "queue/runner/runner_trouble.h"
#include "queue/runner/runner_waiting.h"
#include "queue/runner/running.h"

static void runner_keeper_close(struct runner_keeper *k)
{
	struct runner *r = k->runner;
	for (struct runner_keeper **p = &r->keepers; *p; p = &(*p)->next)
		if (*p == k) {
			*p = k->next;
			break;
		}
	struct running *run = k->running;
	bool never_lived = k->busy && k->pid == 0;
	if (run)
		run->keeper = NULL;
	runner_hook_again(k);
	loop_remove(k->source);
	close(k->fd);
	text_finish(&k->out);
	free(k);
	/* This keeper may be the one that could not write an end; then no other will report that writing works. */
	r->blocked = false;
	if (run)
		running_keeper_died(run);
	/* Two keepers in a row died before their first message: pause. */
	if (never_lived && r->unborn++ > 0)
		runner_pause(r, RUNNER_TROUBLE_KEEPER, -EAGAIN);
}

/* Whether the job asks for something that does not exist, so that trying again would not help. */
static bool is_of_the_job(enum attempt_part part, int code)
{
	return (part == ATTEMPT_ENVIRONMENT || part == ATTEMPT_LOG) &&
	       (code == -ENOENT || code == -EBADMSG || code == -EACCES || code == -EPERM || code == -ENOTDIR ||
		       code == -ENAMETOOLONG || code == -EISDIR || code == -ELOOP);
}

static void say_refusal(struct text *t, const struct runner *r, const struct job *job, enum attempt_part part, int code)
{
	const char *log_dir = job->wish->log_dir ? job->wish->log_dir : r->options.log_dir;
	const char *env = job->wish->env ? job->wish->env : r->own_env;
	if (part == ATTEMPT_LOG)
		text_appendf(t, "could not be started: making its log in '%s': %s", log_dir, error_words(code));
	else if (code == -ENOENT)
		text_appendf(t, "could not be started: its environment '%s/env/%s' is no longer there",
			r->journal->dir_path, env);
	else
		text_appendf(t, "could not be started: reading its environment '%s/env/%s': %s", r->journal->dir_path,
			env, error_words(code));
}

/* A file of the queue itself is missing or not writable: pause, and try again. */
static void wait_for_part(struct runner *r, enum attempt_part part, int code)
{
	char where[512];
	where[0] = '\0';
	if (part == ATTEMPT_KEEPER)
		snprintf(where, sizeof(where), ", in '%s/keepers'", r->journal->dir_path);
	else if (part == ATTEMPT_LOG_DIRECTORY)
		snprintf(where, sizeof(where), ": other users can change the directory for logs, '%s'",
			r->options.log_dir);
	runner_pause_at(r, RUNNER_TROUBLE_START, where, code);
}

static void on_refused(struct runner *r, struct running *run, enum attempt_part part, int code)
{
	struct job *job = jobs_find(&r->jobs, run->id);
	running_count(run, -1);
	running_remove(run);
	r->must_place = true;
	if (job && job->state != JOB_PENDING)
		job = NULL;
	if (code == -ESTALE) {
		r->fence_stale = true;
	} else if (is_of_the_job(part, code)) {
		cleanup_(text_finish) struct text words = {0};
		if (job)
			say_refusal(&words, r, job, part, code);
		if (job)
			record_write_fail(&r->to_append, job->id, text_string(&words));
		return;
	} else if (code != -ECANCELED) {
		wait_for_part(r, part, code);
	}
	if (job)
		runner_enqueue(r, job);
}

static void on_note(struct runner_keeper *k, const struct keeper_note *n)
{
	struct runner *r = k->runner;
	switch ((enum keeper_note_kind)n->kind) {
	case KEEPER_NOTE_READY:
		k->busy = k->hook = false;
		r->must_place = true;
		break;
	case KEEPER_NOTE_REFUSED:
		if (k->running && k->running->id == n->id)
			on_refused(r, k->running, (enum attempt_part)n->part, n->code);
		break;
	case KEEPER_NOTE_HELLO:
		k->pid = (pid_t)n->id;
		r->unborn = 0;
		runner_hook_taken(k);
		break;
	case KEEPER_NOTE_ENDED:
		if (k->running && k->running->id == n->id)
			k->running->told_state = (enum job_state)n->code;
		if (r->blocked)
			runner_say(r, "gpuq: the end of job %llu is written; going on\n", (unsigned long long)n->id);
		r->blocked = false;
		r->must_read = true;
		break;
	case KEEPER_NOTE_BLOCKED:
		r->blocked = true;
		runner_say(r, "gpuq: writing the end of job %llu: %s; nothing new starts until it can be written\n",
			(unsigned long long)n->id, error_words(n->code));
		break;
	}
}

/* False when the keeper is gone. */
static bool runner_keeper_receive(struct runner_keeper *k)
{
	for (;;) {
		struct keeper_note notes[8];
		char *in = (char *)notes;
		memcpy(in, k->partial_note, k->partial_bytes);
		ssize_t n = recv(k->fd, in + k->partial_bytes, sizeof(notes) - k->partial_bytes, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return true;
		if (n <= 0)
			return false;
		size_t have = k->partial_bytes + (size_t)n, whole = have / sizeof(notes[0]);
		k->partial_bytes = have % sizeof(notes[0]);
		memcpy(k->partial_note, in + whole * sizeof(notes[0]), k->partial_bytes);
		for (size_t i = 0; i < whole; i++)
			on_note(k, &notes[i]);
		if ((size_t)n < sizeof(notes))
			return true;
	}
}

static int runner_keeper_flush(struct runner_keeper *k)
{
	while (k->out_done < k->out.length) {
		ssize_t n = send(
			k->fd, k->out.data + k->out_done, k->out.length - k->out_done, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EAGAIN)
			return loop_change(k->source, EPOLLIN | EPOLLOUT);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			k->out_done += (size_t)n;
	}
	if (k->out.room > 65536)
		text_finish(&k->out);
	text_clear(&k->out);
	k->out_done = 0;
	return 0;
}

static void on_keeper(void *context, uint32_t events)
{
	struct runner_keeper *k = context;
	if (events & EPOLLOUT && runner_keeper_flush(k) == 0 && k->out.length == 0)
		loop_change(k->source, EPOLLIN);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR) && !runner_keeper_receive(k))
		runner_keeper_close(k);
}

static struct runner_keeper *runner_keeper_create(struct runner *r)
{
	struct runner_keeper *k = calloc(1, sizeof(*k));
	if (!k)
		return NULL;
	k->runner = r;
	k->fd = -1;
	int e = nursery_add_keeper(r->nursery_fd, &k->fd);
	if (e == -EPIPE || e == -ECONNRESET) {
		/* Somebody killed the nursery. Its keepers go on; new ones need another nursery. */
		close(r->nursery_fd);
		r->nursery_fd = -1;
		r->orphaned = true;
		e = nursery_start(
			&(struct nursery_options){r->journal->path, r->journal->parent_fd, r->journal->accepted},
			&r->nursery_pid, &r->nursery_fd, NULL);
		if (e == 0)
			e = nursery_add_keeper(r->nursery_fd, &k->fd);
	}
	if (e == 0)
		e = loop_add(r->loop, k->fd, EPOLLIN, on_keeper, k, &k->source);
	if (e < 0) {
		runner_pause(r, RUNNER_TROUBLE_KEEPER, e);
		if (k->fd >= 0)
			close(k->fd);
		free(k);
		return NULL;
	}
	k->next = r->keepers;
	r->keepers = k;
	return k;
}

struct runner_keeper *runner_keeper_get(struct runner *r)
{
	for (struct runner_keeper *k = r->keepers; k; k = k->next)
		if (!k->busy)
			return k;
	return runner_keeper_create(r);
}

int runner_keeper_send(struct runner_keeper *k, const struct keeper_order *order, const void *payload)
{
	text_append(&k->out, order, sizeof(*order));
	if (order->size)
		text_append(&k->out, payload, order->size);
	if (text_error(&k->out))
		return -ENOMEM;
	if (order->kind == KEEPER_ORDER_RUN || order->kind == KEEPER_ORDER_HOOK)
		k->busy = true;
	return runner_keeper_flush(k);
}

void runner_keepers_destroy(struct runner *r)
{
	while (r->keepers) {
		/* The keepers live: no job of theirs is lost. */
		if (r->keepers->running)
			r->keepers->running->keeper = NULL;
		r->keepers->running = NULL;
		r->keepers->busy = false;
		runner_keeper_close(r->keepers);
	}
}
