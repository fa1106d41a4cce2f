/* SPDX-License-Identifier: MIT */
/*
 * One card in the probe process. The first thread requests a sample; the card's own thread calls the driver and returns
 * the answer. If a card does not answer in time, the first thread gives it up; it is used again when it answers.
 *
 * A driver call may never return although the driver works again. So the thread of a card that was given up is
 * replaced, after longer and longer waits: a new thread queries the card, and the old one ends if its call ever
 * returns. After PROBER_CARD_REPLACEMENTS threads are lost in this way, only another process can help, because one of
 * them may hold a lock of the driver's library.
 */
#ifndef GPU_PROBER_CARD_H
#define GPU_PROBER_CARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "gpu/backend.h"
#include "gpu/prober_threads.h"

struct prober_card {
	/* Set before the thread starts, then unchanged. */
	struct prober_threads *threads;
	const struct gpu_backend *backend;
	void *driver_state;
	unsigned number; /* among those of its driver */
	unsigned index;  /* among all cards */
	bool wants_events;

	/* Under the lock. */
	bool asked; /* its thread may begin */
	bool answered;
	bool watching;       /* subscribed to the driver's events */
	unsigned generation; /* of its thread; threads of earlier generations end */
	struct gpu_set answer;

	/* Used by the first thread only. */
	bool busy; /* a sample was requested, and no answer was taken yet */
	bool given_up;
	bool met; /* has answered at least once */
	uint64_t asked_ns;
	uint64_t replace_ns;   /* when its thread is to be replaced, if it is given up */
	unsigned replacements; /* since it last answered */
};

#define PROBER_CARD_REPLACEMENTS 6

/* Starts its thread: 0 or a negative errno value. */
int prober_card_start(struct prober_card *c);

/* Gives up the card, which did not answer in time. answer_ms: how long a driver may take. */
void prober_card_give_up(struct prober_card *c, unsigned answer_ms);

/* Starts another thread for a card that was given up; it queries the card at once. */
void prober_card_replace(struct prober_card *c, unsigned answer_ms);

/* Requests a sample, unless one was already requested. */
void prober_card_ask(struct prober_card *c);

/*
 * Returns true and the answer, if there is one; release it with gpu_set_finish(). *ret_watching: whether to wait for
 * the driver's events.
 */
bool prober_card_take(struct prober_card *c, struct gpu_set *ret, bool *ret_watching);

/*
 * The time at which a busy card is given up. last_met_ns: the latest time at which a card gave its first answer. Cards
 * that were not in use wake up one after the other, so a card that has never answered is not given up while others
 * begin to answer.
 */
uint64_t prober_card_deadline(const struct prober_card *c, uint64_t last_met_ns, unsigned answer_ms);

/* Writes a record with the problem of the card. */
void prober_card_put_sick(const struct prober_card *c, enum gd_gpu_health health, const char *words, struct text *out);

#endif
