/* SPDX-License-Identifier: MIT */
/* Results that wait for their turn, where callbacks are to be made in the order of the ids. */
#ifndef POOL_ORDER_H
#define POOL_ORDER_H

#include "gpu_dispatch.h"

struct held;

struct order {
	struct held *held; /* by id modulo room; NULL: no order is kept */
	size_t room;
	uint64_t next; /* the id whose turn it is */
};

/* `room`: how far the ids that are under way can lie apart. */
int order_init(struct order *o, size_t room);
void order_finish(struct order *o);

/* Keeps a copy of the event and of its bytes until it is its turn. -ENOMEM: of the event alone, which says so. */
int order_hold(struct order *o, const struct gd_event *event);

/* The event whose turn it is, if it is there; valid until order_advance(). */
const struct gd_event *order_ready(struct order *o);
void order_advance(struct order *o);

#endif
