/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "pool/brief.h"
#include "pool/pool_private.h"

#define SETUP_TRIES 3  /* of a replacement */
#define IDLE_DEATHS 10 /* in a row, of workers that were ready and never began a task */
#define RESTART_NS  (50 * NS_PER_MS)
#define WORDS_MAX   512

/* ---- Beginning ---------------------------------------------------------- */

static void write_brief(struct gd_pool *p, struct slot *s)
{
	struct brief numbers = {
		.slot = s->index,
		.gpu = s->gpu,
		.device = s->device,
		.seed = s->seed,
		.announce = p->callbacks.on_task_start != NULL,
	};
	brief_write(s->channel.in, &numbers);
}

/* A new channel, and the order to the warden. */
static int order_start(struct gd_pool *p, struct slot *s)
{
	cleanup_(closep) int in_fd = -1;
	cleanup_(closep) int out_fd = -1;
	int ends[2];
	int r = channel_create(&in_fd, &out_fd);
	if (r < 0)
		return r;
	r = channel_map(&s->channel, in_fd, out_fd, true);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	s->socket = file_above_stdio(ends[0]);
	cleanup_(closep) int theirs = ends[1];
	if (s->socket < 0)
		return s->socket;
	write_brief(p, s);
	ring_init(&s->in, inbox_descs(s->channel.in), inbox_arena(s->channel.in), CHANNEL_ARENA);
	atomic_store(&s->channel.in->armed, p->arm);
	const int fds[WARDEN_ORDER_FDS] = {in_fd, out_fd, theirs};
	return warden_order(&p->warden,
		(struct warden_order){.kind = WARDEN_ORDER_START, .slot = (uint32_t)s->index, .life = s->life}, fds,
		WARDEN_ORDER_FDS);
}

static void after_life(struct gd_pool *p, struct slot *s, bool was_ready, bool began, struct gd_event *end);

/* The slot has a turn. */
static void start_now(struct gd_pool *p, struct slot *s)
{
	pthread_mutex_lock(&p->lock);
	s->ordered_ns = clock_now_ns();
	int r = order_start(p, s);
	if (r < 0)
		slot_drop_channel(s);
	pthread_mutex_unlock(&p->lock);
	if (r >= 0)
		return;
	setups_give_turn(p, s);
	/* Reported in the next turn, because this may be gd_pool_open(). A later replacement may succeed. */
	s->start_error = r;
	p->restart_at = clock_now_ns() + (s->was_ready ? RESTART_NS : 0);
}

void pool_start_worker(struct gd_pool *p, struct slot *s)
{
	uint64_t most = p->options.max_tasks_per_worker;
	pthread_mutex_lock(&p->lock);
	slot_begin_life(s);
	s->quota = most ? most : UINT64_MAX;
	if (s->life > 1) {
		s->stats.restarts++;
		p->stats.restarts++;
	}
	pthread_mutex_unlock(&p->lock);
	if (setups_take_turn(p, s))
		start_now(p, s);
}

void pool_try_starts(struct gd_pool *p)
{
	for (struct slot *s; (s = setups_needed(p));)
		pool_start_worker(p, s);
	for (struct slot *s; (s = setups_next(p));)
		start_now(p, s);
	if (p->restart_at == 0 || clock_now_ns() < p->restart_at)
		return;
	p->restart_at = 0;
	for (size_t i = 0; i < p->num_slots; i++) {
		struct slot *s = &p->slots[i];
		if (s->start_error == 0)
			continue;
		char words[WORDS_MAX];
		snprintf(words, sizeof(words), "cannot create a process for the worker: %s",
			error_words(s->start_error));
		struct gd_event end = {
			.size = sizeof(end), .failure = GD_FAILURE_ERROR, .code = s->start_error, .message = words};
		s->start_error = 0;
		after_life(p, s, false, false, &end);
	}
}

void pool_kill_worker(struct gd_pool *p, struct slot *s)
{
	/* If an order cannot be sent, the warden is gone, which is detected elsewhere. */
	warden_order(&p->warden,
		(struct warden_order){.kind = WARDEN_ORDER_KILL, .slot = (uint32_t)s->index, .life = s->life}, NULL, 0);
}

/* ---- End ---------------------------------------------------------------- */

void pool_retire_slot(struct gd_pool *p, struct slot *s, enum slot_state state, const char *why)
{
	setups_forget(p, s);
	pthread_mutex_lock(&p->lock);
	s->state = state;
	s->start_error = 0; /* there is no next attempt */
	snprintf(s->stats.message, sizeof(s->stats.message), "%s", why);
	p->alive--;
	bool none_left = p->alive == 0;
	if (none_left && !p->closing)
		pool_close_queue(p, -ENODEV);
	pthread_mutex_unlock(&p->lock);
	if (none_left && !p->closing && p->stop_done == 0)
		pool_cancel_waiting(p, GD_FAILURE_NO_WORKER, "no worker is left");
}

static void give_slot_up(struct gd_pool *p, struct slot *s, struct gd_event *end)
{
	pool_retire_slot(p, s, SLOT_OUT, end->message);
	tally_count(&p->tally.setup_failures);
	end->id = RING_NO_TASK;
	end->slot = s->index;
	end->gpu = s->gpu;
	end->ended_ns = clock_now_ns();
	pool_call(p, p->callbacks.on_setup_fail, end);
}

/* A setup that was asked to end has done so, or was killed for not doing so. */
static bool setup_gave_up(const struct slot *s, const struct gd_event *end)
{
	if (end->failure == GD_FAILURE_CANCELLED)
		return true;
	return s->ending && end->failure == GD_FAILURE_ERROR && (end->code == -ECANCELED || end->code == -EINTR);
}

/* Starts a replacement, or retires the slot. */
static void after_life(struct gd_pool *p, struct slot *s, bool was_ready, bool began, struct gd_event *end)
{
	bool last = p->closing || p->stop_done > 0;
	if (end->failure == GD_FAILURE_STUCK || (p->warden_gone && !last)) {
		pool_retire_slot(p, s, SLOT_OUT, end->message);
		return;
	}
	if (last) {
		if (was_ready || p->warden_gone || setup_gave_up(s, end))
			pool_retire_slot(p, s, SLOT_FINISHED, "");
		else
			give_slot_up(p, s, end);
		return;
	}
	s->failed_setups = was_ready ? 0 : s->failed_setups + 1;
	if (was_ready)
		s->idle_deaths = began || s->recycled ? 0 : s->idle_deaths + 1;
	if (!s->was_ready || s->failed_setups >= SETUP_TRIES || s->idle_deaths >= IDLE_DEATHS)
		give_slot_up(p, s, end);
	else if (!setups_spare(p, s))
		pool_start_worker(p, s);
}

/* A draft that is being written into the dead worker's inbox keeps that inbox. */
static void orphan_draft(struct gd_pool *p, struct slot *s)
{
	for (struct gd_draft *d = p->drafts; d; d = d->next) {
		if (d->slot != s)
			continue;
		d->slot = NULL;
		d->orphaned = s->channel;
		s->channel = (struct channel){0};
	}
	s->drafting = false;
}

static void cleanup_ended_badly(struct gd_pool *p, struct slot *s, struct gd_event *end)
{
	end->id = RING_NO_TASK;
	end->slot = s->index;
	end->gpu = s->gpu;
	end->ended_ns = clock_now_ns();
	pool_call(p, p->callbacks.on_cleanup_fail, end);
}

/*
 * Called when a worker's process has ended: reads its remaining answers, treats the tasks that it had begun as lost,
 * and puts the tasks that it had not begun back to the front of the queue.
 */
static void life_over(struct gd_pool *p, struct slot *s, const struct warden_report *r)
{
	while (pool_read_answers(p, s) > 0)
		;
	char words[WORDS_MAX];
	struct gd_event end = {.size = sizeof(end), .message = ""};
	death_describe(p, s, r, &end, words, sizeof(words));
	bool late = r->flags & WARDEN_END_SETUP_TIMEOUT;
	if (s->setup_words[0] != '\0' && s->state == SLOT_STARTING)
		end = (struct gd_event){.size = sizeof(end),
			.failure = late ? GD_FAILURE_TIMED_OUT : GD_FAILURE_ERROR,
			.code = late ? -ETIMEDOUT : s->setup_code,
			.result = s->setup_payload ? gd_result_bytes(s->setup_payload) : (struct gd_bytes){0},
			.message = s->setup_words,
			.internal = s->setup_payload};

	pthread_mutex_lock(&p->lock);
	bool was_ready = s->state != SLOT_STARTING;
	bool was_closing = s->state == SLOT_CLOSING;
	if (was_ready)
		s->starting_ns = clock_now_ns();
	s->state = SLOT_STARTING; /* gets no more tasks */
	s->pid = 0;
	setups_give_turn(p, s);
	uint64_t first = s->completed;
	uint64_t begun = s->channel.out ? slot_begun(s) : first;
	if (s->broken && !s->lost_parcel && begun == first && s->in.head > first)
		begun = first + 1;
	pool_give_back(p, s, begun);
	pthread_mutex_unlock(&p->lock);

	if (begun > first)
		pool_conclude_lost(p, s,
			&(struct lost){
				.first = first,
				.begun = begun,
				.end = &end,
				.killed = r->flags & (WARDEN_END_TASK_TIMEOUT | WARDEN_END_CANCELLED),
			});
	if (was_closing && !s->cleaned && end.failure != GD_FAILURE_CANCELLED)
		cleanup_ended_badly(p, s, &end);

	pthread_mutex_lock(&p->lock);
	bool began = begun > 0;
	s->completed = begun;
	orphan_draft(p, s);
	slot_drop_channel(s);
	pthread_mutex_unlock(&p->lock);
	if (end.failure == GD_FAILURE_STUCK)
		p->stuck = true;
	after_life(p, s, was_ready, began, &end);
	pthread_mutex_lock(&p->lock);
	pool_hand_out(p);
	pthread_cond_broadcast(&p->room);
	pthread_mutex_unlock(&p->lock);
}

/*
 * Called when the warden was killed. Its workers die with it (PDEATHSIG); their process groups are killed here instead.
 * Without a warden, no new workers can be started.
 */
static void warden_gone(struct gd_pool *p)
{
	p->warden_gone = true;
	epoll_ctl(
		p->epoll_fd, EPOLL_CTL_DEL, p->warden.socket, NULL); /* otherwise epoll would report its end forever */
	for (size_t i = 0; i < p->num_slots; i++)
		if (p->slots[i].pid > 0)
			kill(-p->slots[i].pid, SIGKILL);
	for (size_t i = 0; i < p->num_slots; i++) {
		struct slot *s = &p->slots[i];
		if (s->state == SLOT_FINISHED || s->state == SLOT_OUT)
			continue;
		struct warden_report r = {.kind = WARDEN_REPORT_ENDED, .slot = (uint32_t)i, .status = SIGKILL};
		life_over(p, s, &r);
	}
}

void pool_read_reports(struct gd_pool *p)
{
	struct warden_report r;
	int n = 0;
	while (!p->warden_gone && (n = warden_report(&p->warden, &r)) > 0) {
		if (r.slot >= p->num_slots || p->slots[r.slot].life != r.life)
			continue;
		struct slot *s = &p->slots[r.slot];
		if (s->state == SLOT_FINISHED || s->state == SLOT_OUT)
			continue;
		if (r.kind == WARDEN_REPORT_STARTED) {
			pthread_mutex_lock(&p->lock);
			s->pid = r.pid;
			pthread_mutex_unlock(&p->lock);
		} else {
			life_over(p, s, &r);
		}
	}
	if (!p->warden_gone && n < 0)
		warden_gone(p);
}
