/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sized.h"
#include "pool/options.h"
#include "pool/pool_private.h"

SIZED_NO_TAIL(gd_task_options, nowait);

/* The caller's options for one task, completed with the pool's defaults. */
struct task_limits {
	int64_t timeout_ms;
	bool nowait;
};

static struct task_limits default_limits(const struct gd_pool *p)
{
	return (struct task_limits){.timeout_ms = p->options.task_timeout_ms};
}

static int read_limits(const struct gd_pool *p, const struct gd_task_options *options, struct task_limits *ret)
{
	*ret = default_limits(p);
	if (!options)
		return 0;
	struct gd_task_options copy;
	const struct gd_task_options *o = options;
	if (options->size != sizeof(*options)) { /* of another version of the library */
		int r = sized_read(&copy, sizeof(copy), options, "gd_task_options", NULL);
		if (r < 0)
			return r;
		o = &copy;
	}
	if (o->timeout_ms < 0 || o->timeout_ms > OPTIONS_MOST_MS)
		return -EINVAL;
	if (o->timeout_ms > 0)
		ret->timeout_ms = o->timeout_ms;
	/* In a run, emitting always waits: a caller could react to -EAGAIN only by polling, which is up to the run. */
	ret->nowait = o->nowait != 0 && !p->on_gone;
	return 0;
}

/* With the lock held: the worker of the next new task; NULL: it waits in the backlog, behind others. */
static inline struct slot *pick_for_new(struct gd_pool *p)
{
	if (!backlog_is_empty(&p->backlog) || p->fair)
		return NULL;
	return pool_pick(p, (struct pool_wish){.avoid = -1});
}

/* With the lock held: a worker whose inbox can take the task now. */
static struct slot *place_for(struct gd_pool *p, size_t size)
{
	struct slot *s = size > CHANNEL_IN_PLACE ? NULL : pick_for_new(p);
	return s && ring_reserve(&s->in, size) ? s : NULL;
}

/* Large payloads have another limit: besides those in the inboxes, one for each worker and one more. */
static inline bool has_room(struct gd_pool *p, size_t size)
{
	if (pool_outstanding(p) >= p->limit)
		return false;
	return size < POOL_LARGE || atomic_load(&p->large) <= p->alive || place_for(p, size);
}

/* Why no more tasks are accepted; 0: tasks are accepted. A stop counts as soon as it is requested. */
static int refusal(const struct gd_pool *p)
{
	if (p->closed)
		return p->closed_why;
	return atomic_load_explicit(&p->stop, memory_order_relaxed) > 0 ? -ESHUTDOWN : 0;
}

/* With the lock held: waits for space. The polling thread does not wait, because only it can make space. */
__attribute__((noinline)) static int wait_for_room(struct gd_pool *p, size_t size, bool nowait)
{
	int r;
	while ((r = refusal(p)) == 0 && !has_room(p, size)) {
		if (nowait || pthread_equal(p->poller, pthread_self()))
			return -EAGAIN;
		atomic_fetch_add(&p->waiting, 1);
		p->room_told = false;
		pthread_cond_wait(&p->room, &p->lock);
		atomic_fetch_sub(&p->waiting, 1);
	}
	return r;
}

/* With the lock held: takes a place, and waits for one if necessary. */
static inline int take_place(struct gd_pool *p, size_t size, bool nowait)
{
	if (refusal(p) < 0 || !has_room(p, size)) {
		int r = wait_for_room(p, size, nowait);
		if (r < 0)
			return r;
	}
	atomic_store_explicit(
		&p->taken, atomic_load_explicit(&p->taken, memory_order_relaxed) + 1, memory_order_relaxed);
	p->last_size = size;
	if (size >= POOL_LARGE)
		atomic_fetch_add(&p->large, 1);
	return 0;
}

static void leave_place(struct gd_pool *p, size_t size)
{
	atomic_store_explicit(
		&p->taken, atomic_load_explicit(&p->taken, memory_order_relaxed) - 1, memory_order_relaxed);
	if (size >= POOL_LARGE)
		atomic_fetch_sub(&p->large, 1);
	pthread_cond_broadcast(&p->room);
	if (pool_outstanding(p) == 0 || p->closed)
		pool_signal(p); /* the polling thread may have waited for this task */
}

/* Writes the task directly into a worker's inbox, if one has space. */
static inline bool give_at_once(struct gd_pool *p, uint64_t now, struct gd_bytes bytes, void *tag, int64_t timeout_ms,
	const _Atomic uint32_t **ret_wake)
{
	struct slot *s = pick_for_new(p);
	if (!s || slot_give_new(s, p->next_id, tag, now, timeout_ms, bytes, ret_wake) < 0)
		return false;
	pool_given(p, s, timeout_ms);
	return true;
}

__attribute__((noinline)) static int put_aside(
	struct gd_pool *p, uint64_t now, struct gd_bytes bytes, void *tag, int64_t timeout_ms)
{
	struct task t = {
		.id = p->next_id,
		.tag = tag,
		.queued_ns = now,
		.timeout_ms = timeout_ms,
		.data = (void *)bytes.data,
		.size = bytes.size,
		.parcel = PARCEL_NONE,
		.avoid = -1,
		.place = TASK_RING, /* not ours: to be copied */
	};
	int r = task_detach(&t);
	if (r >= 0)
		backlog_push(&p->backlog, &t);
	return r;
}

/*
 * Updates the average interval between tasks. A longer interval counts as PACE_MOST_NS, because it is not typical of
 * short tasks.
 */
#define PACE_MOST_NS 2000
static inline void note_pace(struct gd_pool *p, uint64_t now)
{
	uint64_t since_ns = now - p->submitted_ns;
	p->submitted_ns = now;
	p->pace_ns = p->pace_ns - p->pace_ns / 32 + (since_ns < PACE_MOST_NS ? since_ns : PACE_MOST_NS) / 32;
}

/* The path of nearly all tasks, in as few steps as possible. */
static inline int submit_small(
	struct gd_pool *p, struct gd_bytes bytes, void *tag, struct task_limits limits, uint64_t *ret_id)
{
	const _Atomic uint32_t *wake = NULL;
	pthread_mutex_lock(&p->lock);
	int r = take_place(p, bytes.size, limits.nowait);
	if (r >= 0) {
		uint64_t now = clock_recent_ns(&p->clock);
		note_pace(p, now);
		if (!give_at_once(p, now, bytes, tag, limits.timeout_ms, &wake))
			r = put_aside(p, now, bytes, tag, limits.timeout_ms);
		if (r < 0) {
			leave_place(p, bytes.size);
		} else {
			if (ret_id)
				*ret_id = p->next_id;
			p->next_id++;
			if (p->fair)
				pool_hand_out(p);
		}
	}
	pthread_mutex_unlock(&p->lock);
	channel_wake(wake);
	return r;
}

/* With the lock held: in a worker's inbox, which has the space. */
static void draft_in_place(struct gd_draft *d, struct slot *s)
{
	s->drafting = true;
	d->slot = s;
	d->task.data = ring_reserve(&s->in, d->task.size);
	d->task.place = TASK_RING;
}

static int draft_elsewhere(struct gd_draft *d)
{
	struct task *t = &d->task;
	if (t->size > CHANNEL_IN_PLACE) {
		int r = parcel_create(t->size, &t->parcel);
		if (r < 0)
			return r;
		t->data = t->parcel.data;
		t->place = TASK_PARCEL;
		return 0;
	}
	t->data = malloc(t->size ? t->size : 1);
	t->place = TASK_HEAP;
	return t->data ? 0 : -ENOMEM;
}

/* With the lock held: takes a place in the queue, and one in an inbox if there is space. */
static int place_draft(struct gd_pool *p, struct gd_draft *d, bool nowait, const struct pool_wish *wish)
{
	if (wish && wish->on_gpu && !pool_has_gpu(p, wish->on_gpu - 1))
		return -ENXIO;
	int r = take_place(p, d->reserved, nowait);
	if (r < 0)
		return r;
	struct slot *s = wish ? pool_pick(p, *wish) : place_for(p, d->reserved);
	if (wish && !(s && ring_reserve(&s->in, d->reserved))) {
		leave_place(p, d->reserved);
		return -EAGAIN;
	}
	if (s)
		draft_in_place(d, s);
	d->next = p->drafts;
	p->drafts = d;
	return 0;
}

/* `wish`: the worker that the task needs, whose inbox it is written into; NULL: any worker, now or later. */
static int reserve(struct gd_pool *p, size_t size, struct task_limits limits, const struct pool_wish *wish,
	struct gd_draft **ret, void **ret_data)
{
	struct gd_draft *d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->pool = p;
	d->reserved = size;
	d->task = (struct task){.size = size,
		.timeout_ms = limits.timeout_ms,
		.avoid = -1,
		.on_gpu = wish ? wish->on_gpu : 0,
		.parcel = PARCEL_NONE};
	pthread_mutex_lock(&p->lock);
	int r = place_draft(p, d, limits.nowait, wish);
	pthread_mutex_unlock(&p->lock);
	if (r < 0) {
		free(d);
		return r;
	}
	if (!d->slot)
		r = draft_elsewhere(d);
	if (r < 0) {
		gd_draft_abandon(d);
		return r;
	}
	*ret = d;
	*ret_data = d->task.data;
	return 0;
}

int gd_pool_reserve(
	struct gd_pool *p, size_t size, const struct gd_task_options *options, struct gd_draft **ret, void **ret_data)
{
	struct task_limits limits;
	int r = read_limits(p, options, &limits);
	return r < 0 ? r : reserve(p, size, limits, NULL, ret, ret_data);
}

int pool_reserve_on(struct gd_pool *p, size_t size, int gpu, bool idle, struct gd_draft **ret, void **ret_data)
{
	const struct pool_wish wish = {.avoid = -1, .on_gpu = gpu + 1, .only_idle = idle};
	struct task_limits limits = default_limits(p);
	limits.nowait = true;
	return size > CHANNEL_IN_PLACE ? -EMSGSIZE : reserve(p, size, limits, &wish, ret, ret_data);
}

static int submit_large(
	struct gd_pool *p, struct gd_bytes bytes, void *tag, struct task_limits limits, uint64_t *ret_id)
{
	struct gd_draft *draft;
	void *to;
	int r = reserve(p, bytes.size, limits, NULL, &draft, &to);
	if (r < 0)
		return r;
	memcpy(to, bytes.data, bytes.size);
	return gd_draft_commit(draft, bytes.size, tag, ret_id);
}

__attribute__((noinline)) static int submit_with(
	struct gd_pool *p, struct gd_bytes bytes, void *tag, const struct gd_task_options *options, uint64_t *ret_id)
{
	struct task_limits limits;
	int r = read_limits(p, options, &limits);
	if (r < 0)
		return r;
	return bytes.size < POOL_LARGE ? submit_small(p, bytes, tag, limits, ret_id)
				       : submit_large(p, bytes, tag, limits, ret_id);
}

int gd_pool_submit(struct gd_pool *p, const void *data, size_t size, void *tag, const struct gd_task_options *options,
	uint64_t *ret_id)
{
	const struct gd_bytes bytes = {.data = data, .size = size};
	if (options || size >= POOL_LARGE)
		return submit_with(p, bytes, tag, options, ret_id);
	return submit_small(p, bytes, tag, default_limits(p), ret_id);
}

/* With the lock held. */
static void unlink_draft(struct gd_pool *p, struct gd_draft *d)
{
	struct gd_draft **at = &p->drafts;
	while (*at != d)
		at = &(*at)->next;
	*at = d->next;
	if (d->slot)
		d->slot->drafting = false;
}

void gd_draft_abandon(struct gd_draft *d)
{
	struct gd_pool *p = d->pool;
	pthread_mutex_lock(&p->lock);
	unlink_draft(p, d);
	leave_place(p, d->reserved);
	pool_hand_out(p);
	pthread_mutex_unlock(&p->lock);
	task_finish(&d->task);
	channel_unmap(&d->orphaned);
	free(d);
}

/* With the lock held: passes on the task, which has been written. */
static int accept_draft(struct gd_pool *p, struct gd_draft *d, uint64_t *ret_id)
{
	struct task *t = &d->task;
	int r = refusal(p);
	if (r < 0)
		return r;
	/*
	 * A worker that has died in the meantime is not ready, before and after its inbox was released to us. If a
	 * worker is being killed for an earlier reason, it would take the task with it.
	 */
	bool alive = d->slot && d->slot->state == SLOT_READY && !d->slot->broken;
	r = alive ? 0 : task_detach(t);
	if (r < 0)
		return r;
	t->id = p->next_id++;
	t->queued_ns = clock_recent_ns(&p->clock);
	if (ret_id)
		*ret_id = t->id;
	if (alive) {
		slot_give_written(d->slot, t);
		pool_given(p, d->slot, t->timeout_ms);
	} else {
		backlog_push(t->on_gpu ? &p->again : &p->backlog, t);
	}
	return 0;
}

int gd_draft_commit(struct gd_draft *d, size_t size, void *tag, uint64_t *ret_id)
{
	struct gd_pool *p = d->pool;
	int r = size <= d->task.size ? 0 : -EINVAL;
	if (r >= 0 && d->task.place == TASK_PARCEL) {
		r = parcel_seal(&d->task.parcel, size);
		d->task.data = d->task.parcel.data;
	}
	if (r < 0) {
		gd_draft_abandon(d);
		return r;
	}
	d->task.size = size;
	d->task.tag = tag;
	pthread_mutex_lock(&p->lock);
	r = accept_draft(p, d, ret_id);
	unlink_draft(p, d);
	if (r < 0)
		leave_place(p, d->reserved);
	else if (d->reserved >= POOL_LARGE && size < POOL_LARGE)
		atomic_fetch_sub(&p->large, 1); /* it is no longer large */
	pool_hand_out(p);
	pthread_mutex_unlock(&p->lock);
	if (r < 0)
		task_finish(&d->task);
	channel_unmap(&d->orphaned);
	free(d);
	return r;
}

size_t gd_pool_outstanding(const struct gd_pool *p)
{
	return pool_outstanding(p);
}

size_t gd_pool_room(const struct gd_pool *pool)
{
	struct gd_pool *p = (struct gd_pool *)pool; /* only the lock changes */
	pthread_mutex_lock(&p->lock);
	size_t outstanding = pool_outstanding(p);
	size_t room = outstanding < p->limit ? p->limit - outstanding : 0;
	if (room > 0 && p->last_size >= POOL_LARGE)
		room = has_room(p, p->last_size);
	pthread_mutex_unlock(&p->lock);
	return room;
}
