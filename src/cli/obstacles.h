/* SPDX-License-Identifier: MIT */
/*
 * Tells a user who waits for jobs what keeps them from starting: each obstacle once, and only the first few.
 * Start from {0}.
 */
#ifndef CLI_OBSTACLES_H
#define CLI_OBSTACLES_H

#include <stdbool.h>

#include "gpu_dispatch.h"
#include "queue/input/id_list.h"
#include "queue/journal/follow.h"

struct obstacles {
	struct id_list told; /* a key for each reported obstacle */
	uint64_t next_ns;    /* time of the next check */
	bool told_more;
};

enum obstacles_found {
	OBSTACLES_NONE, /* one of the jobs may start, is running, or is unknown */
	OBSTACLES_HELD, /* no job can start before one of them is released */
	OBSTACLES_ALL,  /* the GPUs can never run any of them */
};

/* ids: of jobs; those that have ended are ignored. */
int obstacles_tell(struct obstacles *o, struct follow *f, const struct id_list *ids, enum obstacles_found *ret,
	struct gd_error *err);
void obstacles_finish(struct obstacles *o);

#endif
