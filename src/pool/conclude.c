/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "base/clock.h"
#include "pool/pool_private.h"

void pool_call(struct gd_pool *p, gd_callback *callback, const struct gd_event *event)
{
	if (!callback)
		return;
	p->in_callback = true;
	int r = callback(p->callbacks.context, event);
	p->in_callback = false;
	p->made++;
	int none = 0;
	if (r != 0) /* a callback requests only the first stop, however often it returns this */
		atomic_compare_exchange_strong(&p->stop, &none, 1);
}

void pool_announce_now(struct gd_pool *p, const struct slot *s, struct task *t, uint64_t start_ns)
{
	t->announced = true;
	struct gd_event event;
	pool_event_init(&event, s, t);
	event.started_ns = start_ns > t->queued_ns ? start_ns : t->queued_ns;
	pool_call(p, p->callbacks.on_task_start, &event);
}

void pool_close_queue(struct gd_pool *p, int why)
{
	if (!p->closed)
		p->closed_why = why;
	p->closed = true;
	pthread_cond_broadcast(&p->room);
}

void pool_tell_room(struct gd_pool *p)
{
	pthread_mutex_lock(&p->lock);
	if (!p->room_told)
		pthread_cond_broadcast(&p->room);
	p->room_told = true;
	pthread_mutex_unlock(&p->lock);
}

/* Counts a task whose callback is made next. */
static inline void count_end(struct gd_pool *p, const struct gd_event *event)
{
	atomic_store_explicit(
		&p->ended, atomic_load_explicit(&p->ended, memory_order_relaxed) + 1, memory_order_release);
	if (event->task.size >= POOL_LARGE)
		atomic_fetch_sub(&p->large, 1);
	if (pool_owes_room(p, p->limit / 2))
		pool_tell_room(p);
}

static inline void call_back_success(struct gd_pool *p, const struct gd_event *event)
{
	count_end(p, event);
	tally_count(&p->tally.completed);
	pool_call(p, p->callbacks.on_success, event);
}

static gd_callback *callback_of_cancelled(const struct gd_pool *p, const struct gd_event *event)
{
	if (p->callbacks.on_cancelled)
		return p->callbacks.on_cancelled;
	return p->on_gone && event->attempt == 0 ? NULL : p->callbacks.on_error;
}

/* Makes the one callback of a task. */
static void call_back(struct gd_pool *p, const struct gd_event *event)
{
	if (event->failure == GD_FAILURE_NONE) {
		call_back_success(p, event);
		return;
	}
	count_end(p, event);
	switch (event->failure) {
	case GD_FAILURE_TIMED_OUT:
		tally_count(&p->tally.timeouts);
		pool_call(p, p->callbacks.on_timeout, event);
		return;
	case GD_FAILURE_CANCELLED:
		tally_count(&p->tally.cancelled);
		pool_call(p, callback_of_cancelled(p, event), event);
		return;
	default:
		tally_count(&p->tally.failed);
		pool_call(p, p->callbacks.on_error, event);
	}
}

static void call_back_in_order(struct gd_pool *p, const struct gd_event *event)
{
	if (!p->held.results) {
		call_back(p, event);
		return;
	}
	if (event->id != p->held.next) {
		if (held_results_hold(&p->held, event) < 0 && event->task.size >= POOL_LARGE)
			atomic_fetch_sub(&p->large, 1); /* its bytes are gone; the callback will not count them */
		return;
	}
	call_back(p, event);
	held_results_advance(&p->held);
	for (const struct gd_event *next; (next = held_results_ready(&p->held)); held_results_advance(&p->held))
		call_back(p, next);
}

bool pool_requeue(struct gd_pool *p, struct task *t, struct requeue how)
{
	pthread_mutex_lock(&p->lock);
	struct task again = *t;
	bool requeued = !t->cancelled && task_detach(&again) >= 0;
	if (requeued) {
		atomic_store_explicit(&t->over, true, memory_order_relaxed);
		atomic_store_explicit(&again.over, false, memory_order_relaxed);
		again.tries = how.tries;
		again.avoid = how.avoid;
		again.alone |= how.alone;
		again.announced = how.tries == t->tries && t->announced;
		backlog_push(&p->again, &again);
		pool_hand_out(p);
	}
	pthread_mutex_unlock(&p->lock);
	return requeued;
}

static bool try_again(struct gd_pool *p, struct task *t, const struct gd_event *event)
{
	if (event->failure == GD_FAILURE_NONE || event->failure == GD_FAILURE_CANCELLED ||
		event->failure == GD_FAILURE_NO_WORKER)
		return false;
	if (t->doomed || t->tries >= p->options.retries || atomic_load(&p->stop) > 0)
		return false;
	if (!pool_requeue(p, t, (struct requeue){.tries = t->tries + 1, .avoid = event->slot}))
		return false;
	tally_count(&p->tally.retries);
	return true;
}

void pool_conclude(struct gd_pool *p, struct task *t, struct gd_event *event)
{
	if (event->ended_ns == 0)
		event->ended_ns = clock_now_ns();
	if (try_again(p, t, event))
		return;
	atomic_store_explicit(&t->over, true, memory_order_relaxed);
	call_back_in_order(p, event);
	task_finish(t);
}

void pool_conclude_success(struct gd_pool *p, struct task *t, const struct gd_event *event)
{
	atomic_store_explicit(&t->over, true, memory_order_relaxed);
	if (p->held.results)
		call_back_in_order(p, event);
	else
		call_back_success(p, event);
	task_finish(t);
}

void pool_cancel_waiting(struct gd_pool *p, enum gd_failure failure, const char *words)
{
	for (;;) {
		pthread_mutex_lock(&p->lock);
		struct backlog *from = !backlog_is_empty(&p->again) ? &p->again : &p->backlog;
		struct task *front = backlog_front(from);
		struct task t = {0};
		if (front) {
			t = *front;
			backlog_pop(from);
			if (t.doomed)
				p->doomed--;
		} else {
			pthread_cond_broadcast(&p->room);
		}
		pthread_mutex_unlock(&p->lock);
		if (!front)
			return;
		struct gd_event event;
		pool_event_init(&event, NULL, &t);
		event.failure = failure;
		event.code = failure == GD_FAILURE_CANCELLED ? -ECANCELED : -ENODEV;
		event.message = words;
		pool_conclude(p, &t, &event);
	}
}

/* Doomed tasks are at the front of the backlog, where tasks that are given back are put. */
void pool_conclude_doomed(struct gd_pool *p)
{
	for (;;) {
		struct task t = {0};
		pthread_mutex_lock(&p->lock);
		struct task *front = backlog_front(&p->backlog);
		bool found = front && front->doomed;
		if (found) {
			t = *front;
			backlog_pop(&p->backlog);
			p->doomed--;
		} else {
			pool_hand_out(p);
		}
		pthread_mutex_unlock(&p->lock);
		if (!found)
			return;
		struct gd_event event;
		pool_event_init(&event, NULL, &t);
		event.failure = GD_FAILURE_NOT_CARRIED;
		event.code = -ENOMEM;
		event.message = "not enough memory to give the task to another worker";
		pool_conclude(p, &t, &event);
	}
}
