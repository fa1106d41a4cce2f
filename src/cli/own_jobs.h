/* SPDX-License-Identifier: MIT */
/*
 * The jobs that a command has added, and how they stand. What was seen of a job
 * stays when it is pruned. Start from {0}.
 */
#ifndef CLI_OWN_JOBS_H
#define CLI_OWN_JOBS_H

#include <stdbool.h>

#include "gpu_dispatch.h"
#include "queue/input/submit.h"
#include "queue/journal/follow.h"

struct own_jobs {
	const struct id_list *ids; /* ascending; the caller's */
	unsigned char *states;     /* enum job_state of each */
	size_t open;               /* that are not over */
};

int own_jobs_init(struct own_jobs *o, const struct id_list *ids);
void own_jobs_finish(struct own_jobs *o);

/* How they stand now, and from each follow_update() on. One at a time. */
void own_jobs_follow(struct own_jobs *o, struct follow *f);

/* False where one failed, was cancelled, or is not over. */
bool own_jobs_all_completed(const struct own_jobs *o);

/* Position in a list of ascending ids, or SIZE_MAX. */
size_t id_list_find(const struct id_list *l, uint64_t id);

#endif
