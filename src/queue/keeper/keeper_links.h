/* SPDX-License-Identifier: MIT */
/* The keeper's ends of its sockets: each receives orders and sends notes. */
#ifndef QUEUE_KEEPER_KEEPER_LINKS_H
#define QUEUE_KEEPER_KEEPER_LINKS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "queue/keeper/keeper_messages.h"

struct keeper_link {
	int fd; /* -1: none */
	struct text in;
	size_t done; /* bytes of `in` that have been taken */
};
#define KEEPER_LINK_NONE ((struct keeper_link){.fd = -1})

void keeper_link_close(struct keeper_link *l);

/* Reads what has arrived, without waiting. False: the other end is gone; orders that arrived earlier may be left. */
bool keeper_link_receive(struct keeper_link *l);

/* The kind of the next order; 0: no complete order has arrived. A malformed message closes the link. */
uint32_t keeper_link_peek(struct keeper_link *l);
/*
 * Takes the order that keeper_link_peek() found. *ret_payload: order->size bytes, to be freed; NULL if there are none.
 * -ENOMEM: the order is lost.
 */
int keeper_link_take(struct keeper_link *l, struct keeper_order *ret, char **ret_payload);

/* Sends notes whose `bytes` are set. False: the other end is gone. */
bool keeper_link_send(struct keeper_link *l, const struct keeper_note *notes, size_t count);

#endif
