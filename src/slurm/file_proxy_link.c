/* SPDX-License-Identifier: MIT */
/* The thread of a proxy: its connection, and the journal. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "launch/worker_note.h"
#include "slurm/address_file.h"
#include "slurm/agent.h"
#include "slurm/file_proxy_private.h"
#include "slurm/file_worker.h"

#define LOOK_NS NS_PER_S /* between two reads of the journal */

static void send_message(struct file_proxy *p, const struct file_message *m)
{
	file_message_encode(&p->out, m);
	if (p->link && text_error(&p->out) == 0)
		(void)link_send_bytes(p->link, p->out.data, p->out.length);
}

static void send_kind(struct file_proxy *p, enum file_message_kind kind)
{
	send_message(p, &(struct file_message){.kind = kind, .proxy = p->number, .number = p->file});
}

/* Only the bound attempt gets a file, and only this function sends one. */
static void send_request(struct file_proxy *p)
{
	if (p->state != PROXY_BOUND || !p->connected)
		return;
	if (p->task.length && !p->sent && p->ready && !p->busy_before) {
		/* If out of memory, sending is retried after the worker's next message. */
		p->sent = link_send_bytes(p->link, p->task.data, p->task.length) == 0;
	}
	if (p->cancel && p->sent)
		send_kind(p, FILE_CANCEL);
	if (p->end)
		send_kind(p, FILE_END);
}

/* ---- Messages of the worker ----------------------------------------------------------------- */

static void lose(struct file_proxy *p)
{
	p->state = PROXY_LOST;
	p->connected = false;
}

/*
 * The first hello binds the proxy. A later attempt of the job proves that the bound one is dead: the queue grants an
 * attempt only after the previous one is proven dead. A hello of an earlier attempt was delayed: that attempt is dead.
 */
static int take_hello(struct file_proxy *p, struct link *l, const struct file_message *m)
{
	if (p->state == PROXY_LOST || p->state == PROXY_FAILED)
		return -ESTALE;
	if (p->state == PROXY_BOUND && m->attempt != p->hello.attempt) {
		if (m->attempt > p->hello.attempt)
			lose(p);
		return -ESTALE;
	}
	if (p->state == PROXY_BOUND && m->session <= p->hello.session)
		return -ESTALE; /* a connection that the worker has given up */
	if (p->link && p->link != l)
		link_destroy(p->link);
	p->link = l;
	p->state = PROXY_BOUND;
	p->connected = true;
	p->hello = *m;
	p->hello.bytes = NULL;
	p->hello.size = 0;
	bool is_mine = m->proxy == p->number && m->number == p->file;
	/* If the attempt reports another file, the message with ours was lost with the connection. */
	p->sent = p->sent && is_mine;
	p->busy_before = m->outcome == FILE_RUNNING && !is_mine;
	if (p->busy_before)
		send_kind(p, FILE_CANCEL);
	return 0;
}

static void take_answer(struct file_proxy *p, const struct file_message *m)
{
	if (m->proxy != p->number || m->number != p->file) {
		p->busy_before = false;
		return;
	}
	if (p->answered || !p->task.length)
		return;
	p->answered = true;
	p->answer = *m;
	p->answer.bytes = NULL;
	text_clear(&p->bytes);
	text_append(&p->bytes, m->bytes, m->size);
}

static void take_note(struct file_proxy *p, const struct file_message *m)
{
	uint32_t size = (uint32_t)m->size;
	/* The launcher has no use for messages of plug-ins, and one could look like a note of a proxy. */
	if (size != sizeof(struct worker_note))
		return;
	text_append(&p->notes, &size, sizeof(size));
	text_append(&p->notes, m->bytes, m->size);
}

static int take(struct file_proxy *p, struct link *l, const struct file_message *m)
{
	if (m->kind == FILE_HELLO)
		return take_hello(p, l, m);
	if (p->link != l || p->state != PROXY_BOUND)
		return -ESTALE;
	if (m->kind == FILE_READY)
		p->ready = true;
	else if (m->kind == FILE_ANSWER)
		take_answer(p, m);
	else if (m->kind == FILE_NOTE)
		take_note(p, m);
	else if (m->kind == FILE_PING)
		send_kind(p, FILE_PONG);
	else if (m->kind == FILE_SETUP_FAILED && !p->ready) {
		snprintf(p->words, sizeof(p->words), "%.*s", (int)m->size, (const char *)m->bytes);
		p->state = PROXY_FAILED;
	}
	return 0;
}

static int on_bytes(void *context, struct link *l, const void *data, size_t size)
{
	struct file_proxy *p = context;
	struct file_message m;
	int r = file_message_decode(data, size, &m);
	if (r < 0)
		return r;
	pthread_mutex_lock(&p->lock);
	/* The number of the tunnel is the id of the job; only this worker's job may connect. */
	r = link_slurm_job(l) == p->job.id ? take(p, l, &m) : -EPERM;
	if (r == 0)
		send_request(p);
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	return r;
}

static void on_opened(void *context, struct link *l)
{
	(void)context, (void)l; /* the hello follows */
}

static void on_closed(void *context, struct link *l, int reason)
{
	struct file_proxy *p = context;
	(void)reason;
	pthread_mutex_lock(&p->lock);
	if (p->link == l) {
		p->link = NULL;
		p->connected = false;
		pthread_cond_broadcast(&p->changed);
	}
	pthread_mutex_unlock(&p->lock);
	link_destroy(l);
}

/* ---- Requests, and the journal --------------------------------------------------------------- */

static void on_wake(void *context, uint32_t events)
{
	struct file_proxy *p = context;
	uint64_t count;
	(void)events;
	(void)!read(p->wake_fd, &count, sizeof(count));
	pthread_mutex_lock(&p->lock);
	send_request(p);
	pthread_mutex_unlock(&p->lock);
}

static void look_at_journal(struct file_proxy *p)
{
	struct gd_error err = {0};
	/* A journal that cannot be read proves nothing; the next timer tries again. */
	if (file_job_update(&p->job, p->journal, &err) < 0)
		return;
	pthread_mutex_lock(&p->lock);
	if (p->state == PROXY_BOUND && file_job_has_ended(&p->job, p->hello.attempt))
		lose(p);
	else if (p->state == PROXY_WAITS && file_job_is_over(&p->job, p->words, sizeof(p->words)))
		p->state = PROXY_FAILED;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

static void on_timer(void *context, uint32_t events)
{
	struct file_proxy *p = context;
	(void)events;
	look_at_journal(p); /* also while connected: a node that lost power does not close its connection */
	(void)loop_set_deadline(p->timer, clock_now_ns() + LOOK_NS);
}

static void *serve(void *context)
{
	struct file_proxy *p = context;
	while (loop_round(p->loop, -1) >= 0)
		;
	return NULL;
}

/* ---- Start ------------------------------------------------------------------------------------- */

/* The proxy listens at the same address as the coordinator, which is routed towards the nodes. */
static int find_host(const struct file_proxy *p, struct address_file *ret, struct gd_error *err)
{
	int r = address_file_read(p->dir_fd, FILE_JOURNAL_NAME ".d/" AGENT_ADDRESS_FILE, ret);
	return r < 0 ? error_set(err, r, "cannot find the address of the coordinator: %s", error_words(r)) : 0;
}

static int start_thread(struct file_proxy *p)
{
	sigset_t all, before;
	sigfillset(&all);
	/* Signals are for the thread that runs the hooks. */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = -pthread_create(&p->thread, NULL, serve, p);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

int file_proxy_link_start(struct file_proxy *p, struct gd_error *err)
{
	static const struct link_ops ops = {.opened = on_opened, .bytes = on_bytes, .closed = on_closed};
	struct address_file coordinator;
	char name[FILE_ADDRESS_ROOM];
	struct loop_source *source;
	file_address_name(p->worker, name);
	int r = find_host(p, &coordinator, err);
	if (r < 0)
		return r;
	p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = p->wake_fd < 0 ? -errno : loop_create(&p->loop);
	if (r == 0)
		r = loop_add(p->loop, p->wake_fd, EPOLLIN, on_wake, p, &source);
	if (r == 0)
		r = loop_add_timer(p->loop, on_timer, p, &p->timer);
	if (r == 0)
		r = loop_set_deadline(p->timer, clock_now_ns() + LOOK_NS);
	if (r < 0)
		return error_set(err, r, "cannot create an event loop: %s", error_words(r));
	const struct listener_options options = {.loop = p->loop,
		.dir_fd = p->dir_fd,
		.file = name,
		.towards = coordinator.host,
		.secret = p->secret,
		.epoch = p->number,
		.ops = &ops,
		.context = p};
	r = listener_open(&options, &p->listener, err);
	if (r < 0)
		return r;
	r = start_thread(p);
	return r < 0 ? error_set(err, r, "cannot start a thread: %s", error_words(r)) : 0;
}

void file_proxy_link_wake(struct file_proxy *p)
{
	uint64_t one = 1;
	(void)!write(p->wake_fd, &one, sizeof(one)); /* if the counter is full, the descriptor is readable anyway */
}
