/* SPDX-License-Identifier: MIT */
/*
 * What keeps jobs from starting, told to somebody who waits for them: each obstacle once, the first few in words.
 * Start from {0}.
 */
#ifndef CLI_OBSTACLES_H
#define CLI_OBSTACLES_H

#include <stdbool.h>

#include "gpu_dispatch.h"
#include "queue/input/id_list.h"
#include "queue/journal/follow.h"

struct obstacles {
	struct id_list told; /* a number for each obstacle that was told */
	uint64_t next_ns;    /* not looked for before */
	bool told_more;
};

enum obstacles_found {
	OBSTACLES_NONE, /* a job that is waited for may start, runs, or is not known of */
	OBSTACLES_HELD, /* no job can go on before somebody releases one */
	OBSTACLES_ALL,  /* the GPUs can never take any of them */
};

/* ids: of jobs, of which those that are over do not count. */
int obstacles_tell(struct obstacles *o, struct follow *f, const struct id_list *ids, enum obstacles_found *ret,
	struct gd_error *err);
void obstacles_finish(struct obstacles *o);

#endif
