/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "pool/pool_private.h"

/*
 * Very short tasks are given to one worker until it has this much work, even if another worker is idle, because waking
 * that worker costs more.
 */
#define BUNCH_NS 100000

/* The same for a worker that finishes tasks faster than they arrive: it needs no help. */
#define BUNCH_ALONE_NS 400000

/*
 * Tasks that take no longer than handing them out: one worker processes them as fast as they arrive, so another is
 * woken only when the inbox of the first is full.
 */
#define TINY_NS 200

/* If a worker's tasks are shorter than this and it is busy, it is still the first choice for the next task, even if
 * another worker gets this one. */
#define SHORT_NS 1000

#define MOST_AGAIN 16 /* retried tasks examined in one call */

/* Wait for a worker in setup, but only for this long: it may never be ready. */
#define PATIENCE_NS (2 * NS_PER_S)

static bool is_on(const struct slot *s, int on_gpu)
{
	return !on_gpu || s->gpu == on_gpu - 1;
}

bool pool_has_gpu(const struct gd_pool *p, int gpu)
{
	for (size_t i = 0; i < p->num_slots; i++)
		if (p->slots[i].gpu == gpu && (p->slots[i].state == SLOT_STARTING || p->slots[i].state == SLOT_READY))
			return true;
	return false;
}

/* Whether another slot can take a task that failed in this one, now or soon. */
static bool somebody_else(const struct gd_pool *p, const struct slot *than, int on_gpu)
{
	uint64_t now = clock_now_ns();
	for (size_t i = 0; i < p->num_slots; i++) {
		const struct slot *s = &p->slots[i];
		if (s == than || !is_on(s, on_gpu))
			continue;
		if (s->state == SLOT_READY || (s->state == SLOT_STARTING && now < s->ordered_ns + PATIENCE_NS))
			return true;
	}
	return false;
}

static bool suits(struct gd_pool *p, const struct slot *s, struct pool_wish wish)
{
	if ((wish.only_idle && slot_in_flight(s) > 0) || !is_on(s, wish.on_gpu))
		return false;
	if (wish.avoid == s->index && somebody_else(p, s, wish.on_gpu))
		return false;
	return slot_accepts(s);
}

static struct slot *look(struct gd_pool *p, struct pool_wish wish)
{
	size_t at = p->cursor;
	for (size_t i = 0; i < p->num_slots; i++, at = at + 1 < p->num_slots ? at + 1 : 0) {
		if (!suits(p, &p->slots[at], wish))
			continue;
		p->cursor = at;
		return &p->slots[at];
	}
	return NULL;
}

/* Keep giving short tasks to the same worker; waking another costs more. */
static inline bool bunches(const struct gd_pool *p, const struct slot *s, struct pool_wish wish)
{
	if (s->average_ns == 0 || s->index == wish.avoid || !is_on(s, wish.on_gpu))
		return false;
	uint64_t most_ns = s->average_ns < p->pace_ns ? BUNCH_ALONE_NS : BUNCH_NS;
	bool little = s->average_ns < TINY_NS || slot_in_flight(s) * s->average_ns < most_ns;
	return little && slot_accepts(s);
}

/* Prefer an idle worker to a busy one; hand out ahead only when all are busy. */
static struct slot *pick_another(struct gd_pool *p, struct pool_wish wish)
{
	if (p->maybe_idle) {
		struct pool_wish idle = wish;
		idle.only_idle = true;
		struct slot *s = look(p, idle);
		if (s)
			return s;
		p->maybe_idle = wish.avoid >= 0 || wish.on_gpu; /* other tasks may still fit */
	}
	if (wish.only_idle)
		return NULL;
	p->cursor = p->cursor + 1 < p->num_slots ? p->cursor + 1 : 0;
	return look(p, wish);
}

struct slot *pool_pick(struct gd_pool *p, struct pool_wish wish)
{
	size_t before = p->cursor;
	struct slot *last = &p->slots[before];
	if (wish.on_gpu && !pool_has_gpu(p, wish.on_gpu - 1))
		wish.on_gpu = 0; /* no worker is left there: use any worker */
	if (!wish.only_idle && bunches(p, last, wish))
		return last;
	struct slot *s = pick_another(p, wish);
	if (last->average_ns > 0 && last->average_ns < SHORT_NS && slot_in_flight(last) > 0)
		p->cursor = before;
	return s;
}

/* After -EAGAIN the worker's next answer triggers a retry; other errors are retried by a timer. */
static int give(struct gd_pool *p, struct slot *s, struct task *t)
{
	int r = slot_give(s, t);
	if (r < 0 && r != -EAGAIN) {
		p->stalled = true;
		pool_need_timer(p);
	}
	if (r >= 0)
		pool_given(p, s, t->timeout_ms);
	return r;
}

/* A parcel cannot be taken back from its worker's socket, so it is given to a worker that begins at once. */
static struct slot *pick_for(struct gd_pool *p, const struct task *t)
{
	return pool_pick(
		p, (struct pool_wish){.avoid = t->avoid, .on_gpu = t->on_gpu, .only_idle = t->place == TASK_PARCEL});
}

/* Retried tasks come first, but do not delay the others while they wait for a certain worker. */
static void hand_out_again(struct gd_pool *p)
{
	size_t live = backlog_live(&p->again);
	size_t count = live < MOST_AGAIN ? live : MOST_AGAIN;
	for (size_t i = 0; i < count; i++) {
		struct task t = *backlog_front(&p->again);
		struct slot *s = pick_for(p, &t);
		backlog_pop(&p->again);
		if (!s || give(p, s, &t) < 0)
			backlog_push(&p->again, &t);
	}
}

void pool_hand_out(struct gd_pool *p)
{
	if (p->stop_done > 0)
		return;
	if (!backlog_is_empty(&p->again))
		hand_out_again(p);
	for (struct task *t; (t = backlog_front(&p->backlog)) && !t->doomed;) {
		struct slot *s = p->fair ? fair_start_pick(p, t->avoid) : NULL;
		if (!s && p->fair && fair_start_holds(p))
			break;
		if (!s)
			s = pick_for(p, t);
		if (!s || give(p, s, t) < 0)
			break;
		backlog_pop(&p->backlog);
	}
}

void pool_give_back(struct gd_pool *p, struct slot *s, uint64_t from)
{
	for (uint64_t seq = s->in.head; seq > from; seq--) {
		struct task *t = slot_task(s, seq - 1);
		if (task_detach(t) < 0) {
			if (t->size >= POOL_LARGE)
				atomic_fetch_sub(&p->large, 1); /* its bytes are gone; see count_end() */
			*t = (struct task){
				.id = t->id,
				.tag = t->tag,
				.queued_ns = t->queued_ns,
				.timeout_ms = t->timeout_ms,
				.tries = t->tries,
				.alone = t->alone,
				.cancelled = t->cancelled,
				.parcel = PARCEL_NONE,
				.avoid = -1,
				.doomed = true,
			};
			p->doomed += !t->cancelled;
		}
		if (t->cancelled)
			pool_cancel_task(p, t);
		else
			backlog_push_front(t->avoid >= 0 || t->on_gpu ? &p->again : &p->backlog, t);
	}
	ring_rewind(&s->in, from);
	if (s->published > from)
		s->published = from;
}
