/* SPDX-License-Identifier: MIT */
#include "pool/pool_private.h"

/*
 * Very short tasks are given to one worker until it has this much to do, though
 * another may be idle: waking that one costs more.
 */
#define BUNCH_NS 20000

#define MOST_AGAIN 16 /* looked at in one go */

/* Whether a task that failed in one slot has another to go to, now or soon. */
static bool somebody_else(const struct gd_pool *p, const struct slot *than)
{
	for (size_t i = 0; i < p->num_slots; i++)
		if (&p->slots[i] != than && p->slots[i].state == SLOT_READY)
			return true;
	return false;
}

static bool suits(struct gd_pool *p, const struct slot *s, int avoid, bool only_idle)
{
	if (only_idle && slot_in_flight(s) > 0)
		return false;
	if (avoid == s->index && somebody_else(p, s))
		return false;
	return slot_accepts(s);
}

static struct slot *look(struct gd_pool *p, int avoid, bool only_idle)
{
	for (size_t i = 0; i < p->num_slots; i++) {
		struct slot *s = &p->slots[(p->cursor + i) % p->num_slots];
		if (!suits(p, s, avoid, only_idle))
			continue;
		p->cursor = (size_t)s->index;
		return s;
	}
	return NULL;
}

/* Whoever had the last one, while it is not worth anybody else's while. */
static bool bunches(struct gd_pool *p, const struct slot *s, int avoid)
{
	return s->average_ns > 0 && slot_in_flight(s) * s->average_ns < BUNCH_NS && suits(p, s, avoid, false);
}

/* Somebody idle before somebody busy: handing out ahead is for when everybody has something. */
struct slot *pool_pick(struct gd_pool *p, int avoid)
{
	if (bunches(p, &p->slots[p->cursor], avoid))
		return &p->slots[p->cursor];
	if (p->maybe_idle) {
		struct slot *s = look(p, avoid, true);
		if (s)
			return s;
		p->maybe_idle = avoid >= 0; /* it may be only this task that does not suit */
	}
	p->cursor = (p->cursor + 1) % p->num_slots;
	return look(p, avoid, false);
}

/* Those that are tried again come first, but do not hold up the others while they wait for a certain worker. */
static bool hand_out_again(struct gd_pool *p)
{
	bool any = false;
	size_t count = p->again.count < MOST_AGAIN ? p->again.count : MOST_AGAIN;
	for (size_t i = 0; i < count; i++) {
		struct task t = *backlog_front(&p->again);
		struct slot *s = pool_pick(p, t.avoid);
		backlog_pop(&p->again);
		if (s && slot_give(s, &t) == 0)
			any = true;
		else
			backlog_push(&p->again, &t);
	}
	return any;
}

void pool_hand_out(struct gd_pool *p)
{
	if (p->stop_done > 0)
		return;
	bool any = p->again.count > 0 && hand_out_again(p);
	for (struct task *t; (t = backlog_front(&p->backlog)) && !t->doomed;) {
		struct slot *s = pool_pick(p, t->avoid);
		if (!s || slot_give(s, t) < 0)
			break;
		backlog_pop(&p->backlog);
		any = true;
	}
	if (any)
		warden_notice(&p->warden);
}

void pool_give_back(struct gd_pool *p, struct slot *s, uint64_t from)
{
	for (uint64_t seq = s->in.head; seq > from; seq--) {
		struct task *t = slot_task(s, seq - 1);
		if (task_detach(t) < 0) {
			*t = (struct task){
				.id = t->id, .tag = t->tag, .queued_ns = t->queued_ns, .avoid = -1, .doomed = true};
			p->doomed++;
		}
		backlog_push_front(&p->backlog, t);
	}
	ring_rewind(&s->in, from);
	if (s->published > from)
		s->published = from;
}
