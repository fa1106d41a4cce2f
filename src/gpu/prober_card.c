/* SPDX-License-Identifier: MIT */
#include "gpu/prober_card.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "gpu/wire.h"

struct asker {
	struct prober_card *card;
	unsigned generation;
};

/* Waits until an answer is requested; false: the thread was replaced. */
static bool wait_for_question(const struct asker *me, bool *ret_watching)
{
	struct prober_card *c = me->card;
	pthread_mutex_lock(&c->threads->lock);
	while (!c->asked && c->generation == me->generation)
		pthread_cond_wait(&c->threads->asked, &c->threads->lock);
	bool current = c->generation == me->generation;
	if (current)
		c->asked = false;
	*ret_watching = c->watching;
	pthread_mutex_unlock(&c->threads->lock);
	return current;
}

/*
 * Passes the answer to the first thread; false: this thread was replaced, and the answer still belongs to the caller.
 */
static bool answer_question(const struct asker *me, const struct gpu_set *answer, bool watching)
{
	struct prober_card *c = me->card;
	pthread_mutex_lock(&c->threads->lock);
	bool current = c->generation == me->generation;
	if (current) {
		c->answer = *answer;
		c->watching = watching;
		c->answered = true;
	}
	pthread_mutex_unlock(&c->threads->lock);
	prober_threads_wake(c->threads);
	return current;
}

static void *serve(void *arg)
{
	struct asker *me = arg;
	const struct prober_card *c = me->card;
	bool watching;
	while (wait_for_question(me, &watching)) {
		struct gpu_set answer = {0};
		if (c->backend->sample(c->driver_state, c->number, &answer) < 0)
			prober_leave();
		if (!watching && c->wants_events && c->backend->watch && answer.gpus[0].health == GD_GPU_HEALTH_OK)
			watching = c->backend->watch(c->driver_state, c->number) == 0;
		if (!answer_question(me, &answer, watching)) {
			gpu_set_finish(&answer);
			break;
		}
	}
	free(me);
	return NULL;
}

int prober_card_start(struct prober_card *c)
{
	struct asker *me = malloc(sizeof(*me));
	if (!me)
		return -ENOMEM;
	*me = (struct asker){c, c->generation};
	int r = prober_threads_start(serve, me);
	if (r < 0)
		free(me);
	return r;
}

static void replace_later(struct prober_card *c, unsigned answer_ms)
{
	c->replace_ns = clock_now_ns() + (answer_ms * NS_PER_MS << c->replacements);
}

void prober_card_give_up(struct prober_card *c, unsigned answer_ms)
{
	c->given_up = true;
	c->replacements = 0;
	replace_later(c, answer_ms);
}

void prober_card_replace(struct prober_card *c, unsigned answer_ms)
{
	c->replacements++;
	replace_later(c, answer_ms);
	pthread_mutex_lock(&c->threads->lock);
	c->generation++;
	c->asked = true;
	pthread_cond_broadcast(&c->threads->asked);
	pthread_mutex_unlock(&c->threads->lock);
	/* If no thread can be started now, the next try may succeed. */
	(void)prober_card_start(c);
}

void prober_card_ask(struct prober_card *c)
{
	if (c->busy)
		return;
	c->busy = true;
	c->asked_ns = clock_now_ns();
	pthread_mutex_lock(&c->threads->lock);
	c->asked = true;
	pthread_cond_broadcast(&c->threads->asked);
	pthread_mutex_unlock(&c->threads->lock);
}

bool prober_card_take(struct prober_card *c, struct gpu_set *ret, bool *ret_watching)
{
	pthread_mutex_lock(&c->threads->lock);
	bool answered = c->answered;
	struct gpu_set answer = c->answer;
	c->answered = false;
	bool watching = c->watching;
	pthread_mutex_unlock(&c->threads->lock);
	if (!answered)
		return false;

	for (size_t i = 0; i < answer.count; i++)
		answer.gpus[i].index = (int)c->index;
	c->met = true;
	c->busy = c->given_up = false;
	*ret = answer;
	*ret_watching = watching;
	return true;
}

uint64_t prober_card_deadline(const struct prober_card *c, uint64_t last_met_ns, unsigned answer_ms)
{
	uint64_t since = c->met || last_met_ns < c->asked_ns ? c->asked_ns : last_met_ns;
	return since + answer_ms * NS_PER_MS;
}

void prober_card_put_sick(const struct prober_card *c, enum gd_gpu_health health, const char *words, struct text *out)
{
	struct gpu_set sick = {0};
	struct gd_gpu gpu = {
		.health = health,
		.vendor = c->backend->vendor,
		.index = (int)c->index,
		.vendor_index = (int)c->number,
		.mig_index = -1,
	};
	if (gpu_set_add(&sick, &gpu) < 0 || gpu_set_warn(&sick, "%s", words) < 0)
		prober_leave();
	wire_put(out, WIRE_CARD, c->index, 0, &sick);
	gpu_set_finish(&sick);
}
