/* SPDX-License-Identifier: MIT */
/*
 * How many setups run at the same time, and how they end when the pool does.
 *
 * A slot has a turn from the order to start its worker until its setup is over,
 * whatever the outcome. Slots without a turn wait, first come, first served, and
 * have no process. Only the polling thread touches turns.
 */
#include "pool/pool_private.h"

bool setups_take_turn(struct gd_pool *p, struct slot *s)
{
	size_t most = (size_t)p->options->setup_concurrency;
	if (most > 0 && (p->setups_waiting > 0 || p->setups_running >= most)) {
		s->waits_since = ++p->setups_asked;
		p->setups_waiting++;
		return false;
	}
	s->in_setup = true;
	p->setups_running++;
	return true;
}

void setups_give_turn(struct gd_pool *p, struct slot *s)
{
	if (!s->in_setup)
		return;
	s->in_setup = false;
	p->setups_running--;
}

static void stop_waiting(struct gd_pool *p, struct slot *s)
{
	s->waits_since = 0;
	p->setups_waiting--;
}

struct slot *setups_next(struct gd_pool *p)
{
	if (p->setups_waiting == 0 || p->setups_running >= (size_t)p->options->setup_concurrency)
		return NULL;
	struct slot *first = NULL;
	for (size_t i = 0; i < p->num_slots; i++) {
		struct slot *s = &p->slots[i];
		if (s->waits_since && (!first || s->waits_since < first->waits_since))
			first = s;
	}
	stop_waiting(p, first);
	first->in_setup = true;
	p->setups_running++;
	return first;
}

void setups_forget(struct gd_pool *p, struct slot *s)
{
	if (s->waits_since)
		stop_waiting(p, s);
	setups_give_turn(p, s);
}

void setups_end(struct gd_pool *p)
{
	for (size_t i = 0; i < p->num_slots; i++) {
		struct slot *s = &p->slots[i];
		if (s->state != SLOT_STARTING || s->ending)
			continue;
		s->ending = true;
		if (s->waits_since) {
			pool_retire_slot(p, s, SLOT_FINISHED, "");
		} else if (s->channel.in) {
			atomic_store(&s->channel.in->ending, 1);
			warden_order(&p->warden,
				(struct warden_order){
					.kind = WARDEN_ORDER_END_SETUP, .slot = (uint32_t)s->index, .life = s->life},
				NULL, 0);
		}
	}
}
