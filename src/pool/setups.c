/* SPDX-License-Identifier: MIT */
/*
 * How many setups run at the same time, and how they end when the pool does.
 *
 * A slot has a turn from the order to start its worker until its setup is over,
 * whatever the outcome. Slots without a turn wait, first come, first served, and
 * have no process. Only the polling thread touches turns.
 *
 * When no more tasks are expected, a worker that ends is not replaced: its slot is *spared* until a task waits that
 * another worker could begin.
 */
#include "pool/pool_private.h"

bool setups_take_turn(struct gd_pool *p, struct slot *s)
{
	size_t most = (size_t)p->options.setup_concurrency;
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
	if (p->setups_waiting == 0 || p->setups_running >= (size_t)p->options.setup_concurrency)
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

static bool has_surplus(struct gd_pool *p)
{
	pthread_mutex_lock(&p->lock);
	bool has = pool_has_surplus(p);
	pthread_mutex_unlock(&p->lock);
	return has;
}

bool setups_spare(struct gd_pool *p, struct slot *s)
{
	if (!atomic_load(&p->no_more) || has_surplus(p))
		return false;
	s->spared = true;
	p->setups_spared++;
	return true;
}

static void stop_sparing(struct gd_pool *p, struct slot *s)
{
	s->spared = false;
	p->setups_spared--;
}

struct slot *setups_needed(struct gd_pool *p)
{
	if (p->setups_spared == 0 || !has_surplus(p))
		return NULL;
	struct slot *s = p->slots;
	while (!s->spared)
		s++;
	stop_sparing(p, s);
	return s;
}

void setups_forget(struct gd_pool *p, struct slot *s)
{
	if (s->waits_since)
		stop_waiting(p, s);
	if (s->spared)
		stop_sparing(p, s);
	setups_give_turn(p, s);
}

void setups_end(struct gd_pool *p)
{
	for (size_t i = 0; i < p->num_slots; i++) {
		struct slot *s = &p->slots[i];
		if (s->state != SLOT_STARTING || s->ending)
			continue;
		s->ending = true;
		if (s->waits_since || s->spared) {
			pool_retire_slot(p, s, SLOT_FINISHED, "");
		} else if (s->channel.in) {
			uint32_t goes_on = SETUP_GOES_ON; /* a setup that is out of time stays out of time */
			atomic_compare_exchange_strong(&s->channel.in->ending, &goes_on, SETUP_CANCELLED);
			warden_order(&p->warden,
				(struct warden_order){
					.kind = WARDEN_ORDER_END_SETUP, .slot = (uint32_t)s->index, .life = s->life},
				NULL, 0);
		}
	}
}
