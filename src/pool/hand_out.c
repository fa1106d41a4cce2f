/* SPDX-License-Identifier: MIT */
#include "pool/pool_private.h"

/*
 * Very short tasks are given to one worker until it has this much to do, though
 * another may be idle: waking that one costs more.
 */
#define BUNCH_NS 20000

static bool suits(struct gd_pool *p, const struct slot *s, int avoid, bool only_idle)
{
	if (only_idle && slot_in_flight(s) > 0)
		return false;
	if (avoid == s->index && p->alive > 1)
		return false;
	return slot_accepts(s, p->ahead);
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

void pool_hand_out(struct gd_pool *p)
{
	bool any = false;
	if (p->stop_done > 0)
		return;
	for (size_t i = 0; i < p->backlog.count;) {
		struct task *t = backlog_at(&p->backlog, i);
		struct slot *s = t->doomed ? NULL : pool_pick(p, t->avoid);
		/* One that waits for another worker than its last holds back none behind it. */
		if (!s && t->avoid >= 0) {
			i++;
			continue;
		}
		if (!s || slot_give(s, t) < 0)
			break;
		backlog_remove(&p->backlog, i);
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
