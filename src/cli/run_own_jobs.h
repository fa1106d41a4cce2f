/* SPDX-License-Identifier: MIT */
/*
 * The jobs that a `gpuq run` has added, and their states. The last known state is kept
 * when a job is pruned. Start from {0}.
 */
#ifndef CLI_RUN_OWN_JOBS_H
#define CLI_RUN_OWN_JOBS_H

#include <stdbool.h>

#include "gpu_dispatch.h"
#include "queue/input/id_list.h"
#include "queue/journal/follow.h"

struct run_own_jobs {
	const struct id_list *ids; /* ascending; borrowed */
	unsigned char *states;     /* enum job_state of each */
	size_t open;               /* number of jobs that have not ended */
	/* See run_own_jobs_watch(). */
	uint32_t *told; /* last reported progress of each */
	void (*changed)(void *context, const struct job *job, enum job_state old);
	void *context;
};

int run_own_jobs_init(struct run_own_jobs *o, const struct id_list *ids);
void run_own_jobs_finish(struct run_own_jobs *o);

/*
 * Call before run_own_jobs_follow(): calls `changed` for each job that has already begun or ended, and for
 * each later change; once per change, even if the journal is read again from its beginning. old: the previous state.
 */
void run_own_jobs_watch(struct run_own_jobs *o,
	void (*changed)(void *context, const struct job *job, enum job_state old), void *context);

/* Sets the current states, and updates them with each follow_update(). Only one at a time. */
int run_own_jobs_follow(struct run_own_jobs *o, struct follow *f, struct gd_error *err);

/* Call after each follow_update(): if a job was pruned before its end was read, reads the end from the archive. */
int run_own_jobs_update(struct run_own_jobs *o, const struct follow *f, struct gd_error *err);

/* False if a job failed, was cancelled, or has not ended. */
bool run_own_jobs_all_completed(const struct run_own_jobs *o);

/* How many jobs are in this state. */
uint64_t run_own_jobs_count(const struct run_own_jobs *o, enum job_state state);

/* How many jobs are unknown, and the first of them. */
uint64_t run_own_jobs_unknown(const struct run_own_jobs *o, uint64_t *ret_first);

#endif
