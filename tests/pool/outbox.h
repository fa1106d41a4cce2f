/* SPDX-License-Identifier: MIT */
/* A worker's view of the memory that it shares with the pool, for workers that break the rules. */
#ifndef TESTS_POOL_OUTBOX_H
#define TESTS_POOL_OUTBOX_H

#include "pool/channel.h"

/* In a worker: its outbox. Exits if this process can write anything else of the pool's. */
struct outbox *outbox_find(void);

/* Publishes a record of the worker's own making. The pool is not woken for it. */
void outbox_publish(struct outbox *out, struct ring_desc desc);

#endif
