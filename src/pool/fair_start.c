/* SPDX-License-Identifier: MIT */
/*
 * The option fair_start: each worker gets a task before another gets its second one.
 *
 * `fair` is set until every worker has had its first task, is lost, or took too long; while it is set, all new tasks go
 * through the backlog. A slot is *new* while it is in its first life and was given no task. One task of the backlog is
 * kept for each new slot whose setup runs. It is kept no longer than the setup of the first ready worker took.
 */
#include "base/clock.h"
#include "pool/pool_private.h"

static bool is_new(const struct slot *s)
{
	return s->life == 1 && s->in.head == 0;
}

void fair_start_ready(struct gd_pool *p, const struct slot *s)
{
	uint64_t now = clock_now_ns();
	if (p->fair && p->fair_until_ns == 0)
		p->fair_until_ns = now + (now - s->ordered_ns);
}

/* New slots whose setup runs. Slots that are ready are counted only to find out whether fair start is over. */
static size_t count_new(const struct gd_pool *p, bool ready_ones)
{
	size_t count = 0;
	for (size_t i = 0; i < p->num_slots; i++) {
		const struct slot *s = &p->slots[i];
		bool counts = s->state == SLOT_STARTING || (ready_ones && s->state == SLOT_READY);
		count += counts && is_new(s);
	}
	return count;
}

struct slot *fair_start_pick(struct gd_pool *p, int avoid)
{
	for (size_t i = 0; i < p->num_slots; i++) {
		struct slot *s = &p->slots[i];
		if (s->index != avoid && is_new(s) && slot_accepts(s))
			return s;
	}
	return NULL;
}

bool fair_start_holds(struct gd_pool *p)
{
	bool late = p->fair_until_ns > 0 && clock_now_ns() >= p->fair_until_ns;
	if (late || count_new(p, true) == 0) {
		p->fair = false;
		return false;
	}
	if (backlog_live(&p->backlog) > count_new(p, false))
		return false;
	pool_need_timer(p);
	return true;
}

uint64_t fair_start_wait_ns(const struct gd_pool *p)
{
	if (!p->fair || p->fair_until_ns == 0 || backlog_is_empty(&p->backlog))
		return 0;
	uint64_t now = clock_now_ns();
	return p->fair_until_ns > now ? p->fair_until_ns - now : 1;
}
