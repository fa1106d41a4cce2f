/* SPDX-License-Identifier: MIT */
/*
 * One long task among many short ones: tasks handed to its worker ahead of time are taken back as soon as another
 * worker is idle.
 */
#include "base/clock.h"
#include "pool/pool_private.h"

/* Whether the worker has tasks that it has not begun, in addition to the one at its head, which stays with it. */
static bool has_waiting(const struct slot *s)
{
	if (s->state != SLOT_READY || s->drafting || s->broken || slot_in_flight(s) < 2)
		return false;
	uint64_t begun = slot_begun(s);
	return s->in.head > (begun > s->completed ? begun : s->completed + 1);
}

bool pool_has_surplus(struct gd_pool *p)
{
	if (pool_has_waiting(p))
		return true;
	for (size_t i = 0; i < p->num_slots; i++)
		if (has_waiting(&p->slots[i]))
			return true;
	return false;
}

/* A worker is idle, the backlog is empty, and another worker has tasks that it has not begun. */
bool pool_wants_balance(struct gd_pool *p)
{
	bool idle = false, waiting = false;
	if (!backlog_is_empty(&p->backlog) || p->num_slots < 2)
		return false;
	for (size_t i = 0; i < p->num_slots && !(idle && waiting); i++) {
		struct slot *s = &p->slots[i];
		idle |= s->state == SLOT_READY && slot_in_flight(s) == 0;
		waiting |= has_waiting(s);
	}
	if (!idle || !waiting)
		return false;
	for (size_t i = 0; i < p->num_slots; i++)
		p->slots[i].watched = p->slots[i].completed;
	return true;
}

/* A parcel is already in the worker's socket: it stays there, with all tasks before it. */
static uint64_t after_last_parcel(struct slot *s, uint64_t from)
{
	for (uint64_t seq = s->in.head; seq > from; seq--)
		if (slot_task(s, seq - 1)->place == TASK_PARCEL)
			return seq;
	return from;
}

void pool_take_back(struct gd_pool *p, struct slot *s, uint64_t lowest)
{
	struct ring_words words = {
		.head = &s->channel.in->head,
		.round = &s->channel.in->round,
		.begun = &s->channel.out->begun,
	};
	uint64_t from = after_last_parcel(s, ring_take_back(&s->in, lowest, words));
	if (from < s->in.head)
		pool_give_back(p, s, from);
	/* Too much was taken back: publish it again, and wake a worker that has seen the lower head. */
	slot_publish(s);
}

/* A millisecond after the check began: takes back tasks from workers that have ended none meanwhile. */
void pool_balance(struct gd_pool *p)
{
	for (size_t i = 0; i < p->num_slots; i++) {
		struct slot *s = &p->slots[i];
		if (!has_waiting(s) || s->watched != s->completed)
			continue;
		pool_take_back(p, s, s->completed + 1);
		/* The worker's current task is long: give it no tasks ahead until its next tasks prove short. */
		if (s->average_ns < 2 * NS_PER_MS)
			s->average_ns = 2 * NS_PER_MS;
	}
	pool_hand_out(p);
}
