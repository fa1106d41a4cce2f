/* SPDX-License-Identifier: MIT */
/* A worker's view of the memory that it shares with the pool, for workers that break the rules. */
#ifndef TESTS_POOL_OUTBOX_H
#define TESTS_POOL_OUTBOX_H

#include "pool/channel.h"

/* In a worker: finds its outbox. Exits if this process can write to other memory of the pool. */
struct outbox *outbox_find(void);

/* Publishes a forged record. Does not wake the pool. */
void outbox_publish(struct outbox *out, struct ring_desc desc);

#endif
