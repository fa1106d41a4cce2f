/* SPDX-License-Identifier: MIT */
/*
 * The jobs that a `gpuq run` has added, and their states. The last state seen of a job
 * stays when the job is pruned. Start from {0}.
 */
#ifndef CLI_RUN_OWN_JOBS_H
#define CLI_RUN_OWN_JOBS_H

#include <stdbool.h>

#include "gpu_dispatch.h"
#include "queue/input/id_list.h"
#include "queue/journal/follow.h"

struct run_own_jobs {
	const struct id_list *ids; /* ascending; the caller's */
	unsigned char *states;     /* enum job_state of each */
	size_t open;               /* that are not over */
	/* See run_own_jobs_watch(). */
	uint32_t *told; /* how far each was told */
	void (*changed)(void *context, const struct job *job, enum job_state old);
	void *context;
};

int run_own_jobs_init(struct run_own_jobs *o, const struct id_list *ids);
void run_own_jobs_finish(struct run_own_jobs *o);

/*
 * Before run_own_jobs_follow(): calls `changed` for each of them that has begun or ended, also before, and for each
 * later change: once, also if the journal is read again from its beginning. old: its state before that.
 */
void run_own_jobs_watch(struct run_own_jobs *o,
	void (*changed)(void *context, const struct job *job, enum job_state old), void *context);

/* How they stand now, and from each follow_update() on. One at a time. */
int run_own_jobs_follow(struct run_own_jobs *o, struct follow *f, struct gd_error *err);

/* To be called after each follow_update(): jobs that were pruned before their end was read ended as the archive says.
 */
int run_own_jobs_update(struct run_own_jobs *o, const struct follow *f, struct gd_error *err);

/* False where one failed, was cancelled, or is not over. */
bool run_own_jobs_all_completed(const struct run_own_jobs *o);

/* How many are in this state. */
uint64_t run_own_jobs_count(const struct run_own_jobs *o, enum job_state state);

/* How many are unknown, and the first of them. */
uint64_t run_own_jobs_unknown(const struct run_own_jobs *o, uint64_t *ret_first);

#endif
