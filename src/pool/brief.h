/* SPDX-License-Identifier: MIT */
/* The brief: the data that a worker needs at its start, in its inbox. Its settings come as a memfd, see settings.h. */
#ifndef POOL_BRIEF_H
#define POOL_BRIEF_H

#include "pool/channel.h"

struct brief {
	uint32_t size; /* of struct brief: an executed program may be linked to another version */
	int32_t slot;
	int32_t gpu;
	int32_t device;
	int64_t seed;
	uint32_t announce; /* wants RING_STARTED records */
	uint32_t spare;
};
_Static_assert(sizeof(struct brief) <= CHANNEL_BRIEF, "the brief fits into the inbox");

void brief_write(struct inbox *in, const struct brief *numbers);

/* The brief in an inbox; -EPROTO if it is not one of ours. */
int brief_read(const struct inbox *in, const struct brief **ret);

#endif
