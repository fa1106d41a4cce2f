/* SPDX-License-Identifier: MIT */
/*
 * Results that are kept until their turn, for pools that make their callbacks in the order of the task ids. At most
 * `room` ids are in progress, so each has its own place.
 */
#ifndef POOL_HELD_RESULTS_H
#define POOL_HELD_RESULTS_H

#include "gpu_dispatch.h"

struct held_result;

struct held_results {
	struct held_result *results; /* by id modulo room; NULL: callbacks are made in any order */
	size_t room;
	uint64_t next; /* the id whose turn it is */
};

/* `room`: the ids under way differ by less than this. */
int held_results_init(struct held_results *h, size_t room);
void held_results_finish(struct held_results *h);

/* Copies the event and its bytes. -ENOMEM: only the event was kept, changed to report that its result is lost. */
int held_results_hold(struct held_results *h, const struct gd_event *event);

/* The event whose turn it is, or NULL if it has not come yet; valid until held_results_advance(). */
const struct gd_event *held_results_ready(struct held_results *h);
void held_results_advance(struct held_results *h);

#endif
