/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "pool/pool_private.h"

/* First: no task begins. Tasks that were handed out and not begun are taken back. */
static void stop_waiting(struct gd_pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->stop_done = 1;
	pool_close_queue(p, -ESHUTDOWN);
	for (size_t i = 0; i < p->num_slots; i++) {
		struct slot *s = &p->slots[i];
		if (s->state == SLOT_READY && !s->broken && slot_in_flight(s) > 0)
			pool_take_back(p, s, s->completed + 1);
	}
	pthread_mutex_unlock(&p->lock);
	setups_end(p);
	pool_cancel_waiting(p, GD_FAILURE_CANCELLED, POOL_CANCELLED_WORDS);
}

/* Second: running tasks are cancelled, and killed after the grace period. */
static void stop_running(struct gd_pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->stop_done = 2;
	for (size_t i = 0; i < p->num_slots; i++) {
		struct slot *s = &p->slots[i];
		if (s->state != SLOT_READY || slot_in_flight(s) == 0)
			continue;
		for (uint64_t seq = s->completed; seq < s->in.head; seq++)
			slot_cancel(s, seq);
	}
	pthread_mutex_unlock(&p->lock);
	warden_wake(&p->warden);
}

/* Third: all workers are killed, even during cleanup. */
static void stop_workers(struct gd_pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->stop_done = 3;
	pthread_mutex_unlock(&p->lock);
	for (size_t i = 0; i < p->num_slots; i++) {
		struct slot *s = &p->slots[i];
		if (s->state != SLOT_FINISHED && s->state != SLOT_OUT)
			pool_kill_worker(p, s);
	}
}

void pool_stop_turn(struct gd_pool *p)
{
	int asked = pool_stop_asked(p);
	if (asked >= 1 && p->stop_done < 1)
		stop_waiting(p);
	if (asked >= 2 && p->stop_done < 2)
		stop_running(p);
	if (asked >= 3 && p->stop_done < 3)
		stop_workers(p);
	/* If a worker dies later, the tasks that it had not begun are put back. */
	if (p->stop_done > 0 && pool_has_waiting(p))
		pool_cancel_waiting(p, GD_FAILURE_CANCELLED, POOL_CANCELLED_WORDS);
}

void gd_pool_stop(struct gd_pool *p)
{
	atomic_fetch_add(&p->stop, 1);
	gd_pool_interrupt(p);
}
