/* SPDX-License-Identifier: MIT */
/*
 * Cancelling single tasks. gd_pool_cancel() moves a task that no worker has to the list of tasks that only wait for
 * their callback. A task in a worker's inbox gets a mark: the worker does not begin it, and the polling thread takes it
 * back. If the task has begun, the warden is woken and enforces the mark.
 */
#include <errno.h>

#include "pool/pool_private.h"

/* With the lock held: the polling thread has something to do. */
static void need_turn(struct gd_pool *p)
{
	if (!atomic_exchange(&p->cancelling, true))
		pool_signal(p);
}

void pool_cancel_task(struct gd_pool *p, const struct task *t)
{
	backlog_push(&p->cancelled, t);
	need_turn(p);
}

static bool cancel_waiting(struct gd_pool *p, uint64_t id)
{
	struct task t;
	if (!backlog_remove(&p->backlog, id, &t) && !backlog_remove(&p->again, id, &t))
		return false;
	if (t.doomed)
		p->doomed--;
	t.cancelled = true;
	pool_cancel_task(p, &t);
	return true;
}

/* Where a slot has the task: in its table, not ended. */
static bool find_in_slot(struct slot *s, uint64_t id, uint64_t *ret)
{
	for (uint64_t seq = s->in.tail; seq < s->in.head; seq++) {
		struct task *t = slot_task(s, seq);
		if (t->id == id && !atomic_load_explicit(&t->over, memory_order_relaxed)) {
			*ret = seq;
			return true;
		}
	}
	return false;
}

static bool cancel_handed_out(struct gd_pool *p, struct slot *s, uint64_t id)
{
	uint64_t seq;
	if (!s->channel.in || !find_in_slot(s, id, &seq))
		return false;
	if (seq < s->completed) {
		slot_task(s, seq)->cancelled = true; /* its answer is being processed: it is not retried */
	} else if (slot_cancel(s, seq)) {
		warden_wake(&p->warden);
	} else {
		s->recall = true;
		need_turn(p);
		/* A parcel cannot be taken back: a worker that does not read it is killed after the grace period. */
		if (slot_task(s, seq)->place == TASK_PARCEL)
			warden_wake(&p->warden);
	}
	return true;
}

int gd_pool_cancel(struct gd_pool *p, uint64_t id)
{
	pthread_mutex_lock(&p->lock);
	bool found = id < p->next_id && (cancel_waiting(p, id) || backlog_has(&p->cancelled, id));
	for (size_t i = 0; i < p->num_slots && id < p->next_id && !found; i++)
		found = cancel_handed_out(p, &p->slots[i], id);
	pthread_mutex_unlock(&p->lock);
	return found ? 0 : -ENOENT;
}

/* ---- The polling thread ------------------------------------------------- */

/* With the lock held: takes back the tasks that the worker has not begun, starting at the first cancelled one. */
static void recall(struct gd_pool *p, struct slot *s)
{
	s->recall = false;
	if (s->state != SLOT_READY || s->broken)
		return; /* it is dying: its tasks are given back when it has ended */
	for (uint64_t seq = slot_begun(s); seq < s->in.head; seq++) {
		if (slot_task(s, seq)->cancelled) {
			pool_take_back(p, s, seq);
			return;
		}
	}
}

void pool_conclude_skipped(struct gd_pool *p, struct task *t)
{
	struct gd_event event;
	pool_event_init(&event, NULL, t);
	event.failure = GD_FAILURE_CANCELLED;
	event.code = -ECANCELED;
	event.message = POOL_CANCELLED_WORDS;
	pool_conclude(p, t, &event);
}

void pool_cancel_turn(struct gd_pool *p)
{
	pthread_mutex_lock(&p->lock);
	atomic_store(&p->cancelling, false);
	for (size_t i = 0; i < p->num_slots; i++)
		if (p->slots[i].recall)
			recall(p, &p->slots[i]);
	/* Callbacks may cancel more tasks; the next turn handles those. */
	for (size_t due = backlog_live(&p->cancelled); due > 0; due--) {
		struct task t = *backlog_front(&p->cancelled);
		backlog_pop(&p->cancelled);
		pthread_mutex_unlock(&p->lock);
		pool_conclude_skipped(p, &t);
		pthread_mutex_lock(&p->lock);
	}
	pool_hand_out(p);
	pthread_cond_broadcast(&p->room);
	pthread_mutex_unlock(&p->lock);
}
