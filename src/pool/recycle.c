/* SPDX-License-Identifier: MIT */
/*
 * Workers that end although there is work: recycled after a number of tasks, or when they have grown too large; and all
 * of them when the pool is closed.
 *
 * A slot is given no more than `quota` tasks in a life. When all of them have been
 * answered, its worker is asked to clean up and leave, and a replacement is started.
 */
#include "pool/pool_private.h"

/* With the lock held. */
static void ask_to_leave(struct slot *s)
{
	s->state = SLOT_CLOSING;
	atomic_store(&s->channel.in->closing, 1);
	channel_wake_worker(&s->channel);
}

/* Tells the warden that the worker's time for cleanup begins. */
static void order_close(struct gd_pool *p, const struct slot *s)
{
	warden_order(&p->warden,
		(struct warden_order){.kind = WARDEN_ORDER_CLOSE, .slot = (uint32_t)s->index, .life = s->life}, NULL,
		0);
}

void pool_close_worker(struct gd_pool *p, struct slot *s)
{
	pthread_mutex_lock(&p->lock);
	bool asked = s->state == SLOT_READY && !s->broken;
	if (asked)
		ask_to_leave(s);
	pthread_mutex_unlock(&p->lock);
	if (asked)
		order_close(p, s);
}

/* With the lock held: if the worker has grown too large, the task that it is processing is its last. */
static void end_quota(struct gd_pool *p, struct slot *s)
{
	/* Not before its first task: a setup that needs more than the limit would be repeated forever. */
	if (s->completed == 0 || s->drafting || !warden_says_large(&p->warden, (size_t)s->index, s->life))
		return;
	if (slot_in_flight(s) > 0)
		pool_take_back(p, s, s->completed + 1);
	s->quota = s->in.head;
	pool_hand_out(p);
}

static void recycle(struct gd_pool *p, struct slot *s)
{
	pthread_mutex_lock(&p->lock);
	bool asked = false;
	if (s->state == SLOT_READY && !s->broken) {
		if (s->completed < s->quota && p->options.max_worker_rss_bytes)
			end_quota(p, s);
		asked = s->completed >= s->quota;
	}
	if (asked) {
		s->recycled = true;
		ask_to_leave(s);
	}
	pthread_mutex_unlock(&p->lock);
	if (asked)
		order_close(p, s);
}

void pool_recycle(struct gd_pool *p)
{
	if (p->options.max_tasks_per_worker == 0 && p->options.max_worker_rss_bytes == 0)
		return;
	if (p->closing || p->stop_done > 0)
		return;
	for (size_t i = 0; i < p->num_slots; i++)
		recycle(p, &p->slots[i]);
}
