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
#include "base/trust.h"
#include "queue/journal/record.h"
#include "queue/keeper/attempt.h"
#include "queue/keeper/keeper_socket.h"
#include "queue/keeper/nursery.h"
#include "queue/runner/runner_debug.h"
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
	for (struct runner_keeper **p = &r->executing.keepers; *p; p = &(*p)->next)
		if (*p == k) {
			*p = k->next;
			break;
		}
	struct running *run = k->running;
	bool never_lived = k->busy && k->pid == 0 && !k->adopted;
	if (run)
		run->keeper = NULL;
	loop_remove(k->source);
	close(k->fd);
	text_finish(&k->out);
	text_finish(&k->later);
	free(k);
	r->deciding.must_place = true; /* the keeper may be the one that could not write an end */
	r->following.must_read = true; /* to learn whether a hook of this keeper is still due */
	if (run)
		running_keeper_died(run);
	/* Two keepers in a row died before their first message: pause. */
	if (never_lived && r->executing.unborn++ > 0)
		runner_pause(r, RUNNER_TROUBLE_KEEPER, -EAGAIN);
}

void runner_keeper_forget(struct runner_keeper *k)
{
	if (k->running)
		k->running->keeper = NULL;
	k->running = NULL;
	k->busy = false;
	runner_keeper_close(k);
}

/* Whether other users can replace the directory or its files. If so, they can also choose the error. */
static bool others_can_change(const char *directory)
{
	struct gd_error why = {0};
	cleanup_(closep) int fd = -1;
	int r = trust_open_directory(directory, true, &fd, &why);
	return r == -EPERM || (r == 0 && trust_objection(fd));
}

/* Whether the runner, not the folder of the log, causes the error. */
static bool is_of_the_runner(int code)
{
	return code == -ENOMEM || code == -EMFILE || code == -ENFILE || code == -EAGAIN || code == -EINTR ||
	       code == -ECANCELED;
}

/*
 * Whether only this job fails: it requires something that does not exist, so that a retry would not help, or other
 * users may have caused the error, and must not be able to delay other jobs in this way.
 */
static bool is_of_the_job(const struct runner *r, const struct job *job, enum attempt_part part, int code)
{
	if (part == ATTEMPT_SCRIPT)
		return true;
	if (part != ATTEMPT_ENVIRONMENT && part != ATTEMPT_LOG)
		return false;
	if (code == -ENOENT || code == -EBADMSG || code == -EACCES || code == -EPERM || code == -ENOTDIR ||
		code == -ENAMETOOLONG || code == -EISDIR || code == -ELOOP || code == -EINVAL || code == -EFBIG)
		return true;
	return part == ATTEMPT_LOG && job && !is_of_the_runner(code) &&
	       others_can_change(job_order_log_dir(job, &r->options.order));
}

static void say_log_refusal(struct text *t, const char *directory, int code)
{
	struct gd_error why = {0};
	cleanup_(closep) int fd = -1;
	bool is_link = code == -EPERM && trust_open_directory(directory, false, &fd, &why) == -EPERM;
	text_appendf(t, "could not be started: cannot create its log in '%s': %s", directory,
		is_link ? why.message : error_words(code));
}

static void say_refusal(struct text *t, const struct runner *r, const struct job *job, enum attempt_part part, int code)
{
	const struct order_defaults *d = &r->options.order;
	const char *env = job->wish->env ? job->wish->env : d->env;
	if (part == ATTEMPT_LOG)
		say_log_refusal(t, job_order_log_dir(job, d), code);
	else if (part == ATTEMPT_SCRIPT)
		text_appendf(t,
			"could not be started: other users may have written its stored script '%s/scripts/%s'; add the job again",
			r->following.journal->dir_path, job->wish->script ? job->wish->script : "");
	else if (code == -EPERM)
		text_appendf(t,
			"could not be started: other users may have written its environment '%s/env/%s'; add the job again",
			r->following.journal->dir_path, env);
	else if (code == -ENOENT)
		text_appendf(t, "could not be started: its environment '%s/env/%s' no longer exists",
			r->following.journal->dir_path, env);
	else
		text_appendf(t, "could not be started: cannot read its environment '%s/env/%s': %s",
			r->following.journal->dir_path, env, error_words(code));
}

/* A file of the queue itself is missing or not writable: pause and retry. */
static void wait_for_part(struct runner *r, const struct job *job, enum attempt_part part, int code)
{
	char where[512];
	const struct journal *j = r->following.journal;
	struct gd_error why = {0};
	where[0] = '\0';
	if (part == ATTEMPT_KEEPER && code == -EPERM && !j->accepted && trust_check_place(j->parent_fd, &why) < 0)
		snprintf(where, sizeof(where), ": %.400s", why.message);
	else if (part == ATTEMPT_KEEPER)
		snprintf(where, sizeof(where), ", in '%s/keepers'", j->dir_path);
	else if (part == ATTEMPT_LOG_DIRECTORY)
		snprintf(where, sizeof(where), ": other users can change the directory for logs, '%s'",
			r->options.order.log_dir);
	else if (part == ATTEMPT_LOG && job)
		snprintf(where, sizeof(where), ": its log cannot be created in '%.400s'",
			job_order_log_dir(job, &r->options.order));
	else if (code == -EINTR)
		snprintf(where, sizeof(where), ": a keeper received SIGTERM because the allocation ends");
	runner_pause_at(r, RUNNER_TROUBLE_START, where, code);
}

static void on_refused(struct runner *r, struct running *run, enum attempt_part part, int code)
{
	struct job *job = jobs_find(&r->following.jobs, run->id);
	/* The job now belongs to another keeper. */
	if (job && (job->state != JOB_PENDING || job->running != run))
		job = NULL;
	running_count(run, -1);
	running_remove(run);
	r->deciding.must_place = true;
	if (code == -ESTALE) {
		r->following.fence_stale = true;
	} else if (is_of_the_job(r, job, part, code)) {
		cleanup_(text_finish) struct text words = {0};
		if (job)
			say_refusal(&words, r, job, part, code);
		if (job)
			record_write_fail(
				&r->following.to_append, job->id, text_string(&words), runner_hook_to_record(r, job));
		return;
	} else if (code != -ECANCELED) {
		wait_for_part(r, job, part, code);
	}
	if (job)
		runner_enqueue(r, job);
}

static int runner_keeper_flush(struct runner_keeper *k)
{
	while (k->out_done < k->out.length) {
		ssize_t n = send(
			k->fd, k->out.data + k->out_done, k->out.length - k->out_done, MSG_DONTWAIT | MSG_NOSIGNAL);
		/* Lack of kernel memory is temporary, like a full socket: the rest is sent when the socket is
		 * writable. */
		if (n < 0 && (errno == EAGAIN || errno == ENOMEM || errno == ENOBUFS))
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

/* A lease cannot be given to any other keeper. */
static void on_hello_of_other_lease(struct runner_keeper *k)
{
	struct runner *r = k->runner;
	struct running *run = k->running;
	struct job *job = jobs_find(&r->following.jobs, run->id);
	running_count(run, -1);
	running_remove(run);
	r->deciding.must_place = true;
	if (job)
		record_write_fail(&r->following.to_append, job->id,
			"its 'gpuq exec' and the runner have different versions", runner_hook_to_record(r, job));
}

/* The keeper's protocol is known now. */
static void on_hello(struct runner_keeper *k, int32_t protocol)
{
	k->other = protocol != keeper_protocol;
	if (k->other && k->running && k->adopted && !k->running->started)
		on_hello_of_other_lease(k);
	else if (k->other && k->running)
		runner_say(k->runner,
			"gpuq: job %llu was started by another version of gpuq, whose keeper (PID %d) this version cannot "
			"control; waiting for the job\n",
			(unsigned long long)k->running->id, (int)k->pid);
	if (!k->other && k->later.length)
		text_append(&k->out, k->later.data, k->later.length);
	text_finish(&k->later);
	if (k->out.length)
		(void)runner_keeper_flush(k); /* if the keeper is gone, its socket closes */
}

static void on_blocked(struct runner_keeper *k, const struct keeper_note *n)
{
	struct gd_error room;
	k->blocked = true;
	runner_say(k->runner,
		"gpuq: cannot record the end of job %llu in the journal: %s; no new jobs start until it is recorded\n",
		(unsigned long long)n->id, runner_trouble_words(k->runner, n->code, &room));
}

static void on_unblocked(struct runner_keeper *k, uint64_t id)
{
	k->blocked = false;
	k->runner->deciding.must_place = true;
	runner_say(k->runner, "gpuq: the end of job %llu has been recorded%s\n", (unsigned long long)id,
		runner_is_blocked(k->runner) ? "" : "; continuing");
}

static void on_note(struct runner_keeper *k, const struct keeper_note *n)
{
	struct runner *r = k->runner;
	switch ((enum keeper_note_kind)n->kind) {
	case KEEPER_NOTE_READY:
		k->busy = false;
		r->deciding.must_place = true;
		/* What the keeper has written about the hook must be read before hooks are handed out again. */
		if (k->hook_id)
			r->following.must_read = true;
		k->hook_id = 0;
		break;
	case KEEPER_NOTE_REFUSED:
		if (k->running && k->running->id == n->id)
			on_refused(r, k->running, (enum attempt_part)n->part, n->code);
		else if (k->hook_id == n->id && n->code == -ESTALE)
			r->following.fence_stale = true;
		else if (k->hook_id == n->id)
			wait_for_part(r, NULL, ATTEMPT_PROCESS, n->code);
		break;
	case KEEPER_NOTE_HELLO:
		k->pid = (pid_t)n->id;
		runner_debug(r, "keeper %d %s", (int)k->pid, k->adopted ? "of an earlier runner was found" : "started");
		r->executing.unborn = 0;
		on_hello(k, n->code);
		break;
	case KEEPER_NOTE_ENDED:
		if (k->running && k->running->id == n->id)
			k->running->told_state = (enum job_state)n->code;
		if (k->blocked)
			on_unblocked(k, n->id);
		r->following.must_read = true;
		break;
	case KEEPER_NOTE_BLOCKED:
		on_blocked(k, n);
		break;
	}
}

/* Handles each complete note in k->in; the rest is the beginning of the next. False: a malformed note. */
static bool take_notes(struct runner_keeper *k)
{
	size_t done = 0;
	for (;;) {
		struct keeper_note note = {0};
		uint32_t bytes = 0;
		if (k->in_bytes - done >= sizeof(bytes))
			memcpy(&bytes, k->in + done, sizeof(bytes));
		if (bytes && (bytes < KEEPER_MESSAGE_MIN || bytes > sizeof(k->in)))
			return false;
		if (!bytes || k->in_bytes - done < bytes)
			break;
		memcpy(&note, k->in + done, bytes < sizeof(note) ? bytes : sizeof(note));
		done += bytes;
		on_note(k, &note);
	}
	memmove(k->in, k->in + done, k->in_bytes - done);
	k->in_bytes -= done;
	return true;
}

/* False if the keeper is gone. */
static bool runner_keeper_receive(struct runner_keeper *k)
{
	for (;;) {
		size_t room = sizeof(k->in) - k->in_bytes;
		ssize_t n = recv(k->fd, k->in + k->in_bytes, room, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return true;
		if (n <= 0)
			return false;
		k->in_bytes += (size_t)n;
		if (!take_notes(k))
			return false;
		if ((size_t)n < room)
			return true;
	}
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
	if (!k) {
		runner_pause(r, RUNNER_TROUBLE_KEEPER, -ENOMEM);
		return NULL;
	}
	k->runner = r;
	k->fd = -1;
	int e = nursery_add_keeper(r->executing.nursery_fd, &k->fd);
	if (e == -EPIPE || e == -ECONNRESET) {
		/* The nursery was killed. Its keepers continue; new keepers need a new nursery. */
		close(r->executing.nursery_fd);
		r->executing.nursery_fd = -1;
		r->executing.orphaned = true;
		e = nursery_start(&(struct nursery_options){r->following.journal->path, r->following.journal->parent_fd,
					  r->following.journal->accepted, r->allocation},
			&r->executing.nursery_pid, &r->executing.nursery_fd, NULL);
		if (e == 0)
			e = nursery_add_keeper(r->executing.nursery_fd, &k->fd);
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
	k->next = r->executing.keepers;
	r->executing.keepers = k;
	return k;
}

bool runner_keeper_adopt(struct runner *r, struct running *run, const struct keeper_info *info)
{
	static const struct keeper_order order = {.bytes = sizeof(order), .kind = KEEPER_ORDER_ADOPT};
	int fd;
	if (keeper_socket_connect(r->following.journal->dir_fd, info->name, &fd) < 0)
		return false;
	struct runner_keeper *k = calloc(1, sizeof(*k));
	if (k)
		*k = (struct runner_keeper){.runner = r, .fd = fd, .busy = true, .adopted = true, .running = run};
	if (!k || send(fd, &order, sizeof(order), MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(order) ||
		loop_add(r->loop, fd, EPOLLIN, on_keeper, k, &k->source) < 0) {
		free(k);
		close(fd);
		return false;
	}
	run->keeper = k;
	k->next = r->executing.keepers;
	r->executing.keepers = k;
	return true;
}

bool runner_is_blocked(const struct runner *r)
{
	for (const struct runner_keeper *k = r->executing.keepers; k; k = k->next)
		if (k->blocked)
			return true;
	return false;
}

struct runner_keeper *runner_keeper_get(struct runner *r)
{
	for (struct runner_keeper *k = r->executing.keepers; k; k = k->next)
		if (!k->busy && !k->adopted)
			return k;
	return runner_keeper_create(r);
}

int runner_keeper_send(struct runner_keeper *k, const struct keeper_order *order, const void *payload)
{
	struct keeper_order o = *order;
	struct text *out = k->adopted && !k->pid ? &k->later : &k->out;
	size_t before = out->length;
	if (k->other)
		return -EPROTONOSUPPORT;
	o.bytes = sizeof(o);
	text_append(out, &o, sizeof(o));
	if (o.size)
		text_append(out, payload, o.size);
	if (text_error(out)) {
		out->length = before;
		out->error = 0;
		return -ENOMEM;
	}
	bool was_busy = k->busy;
	if (order->kind == KEEPER_ORDER_RUN || order->kind == KEEPER_ORDER_HOOK)
		k->busy = true;
	int e = runner_keeper_flush(k);
	if (e == -ENOMEM && out == &k->out && k->out_done <= before) {
		/* The caller gives the job to another keeper, so this order must not be sent later. */
		out->length = before;
		k->busy = was_busy;
	}
	return e;
}

void runner_keepers_destroy(struct runner *r)
{
	/* The keepers are alive: their jobs are not lost. */
	while (r->executing.keepers)
		runner_keeper_forget(r->executing.keepers);
}
