/* SPDX-License-Identifier: MIT */
/*
 * A job that was handed to a keeper of this runner or of an earlier one.
 *
 * It is in the runner's list from the moment it is handed out until its end has been read from the
 * journal. The scheduler knows what it holds. Only running_count() changes the counters of struct
 * runner_executing (num_running, num_stuck).
 */
#ifndef QUEUE_RUNNER_RUNNING_H
#define QUEUE_RUNNER_RUNNING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/journal/job.h"
#include "queue/runner/energy_meter.h"
#include "queue/runner/idle_watch.h"
#include "queue/schedule/gpu_users.h"
#include "queue/schedule/placement.h"

struct claim;
struct runner;
struct runner_keeper;
struct scheduler_start;

struct running {
	struct runner *runner;
	struct running *next;
	uint64_t id;
	struct runner_keeper *keeper; /* NULL: it is gone, cannot be reached, or has not been looked for yet */
	bool started;                 /* `start` has been read */
	enum job_state told_state;    /* the final state, as reported by its keeper */
	bool foreign;                 /* on another machine, so not judged by us */
	bool stuck;       /* it cannot be killed: its GPUs take no other job, and the runner does not wait for it */
	uint64_t lost_ns; /* when its keeper was found to be gone; 0: the keeper lives */
	bool left;        /* at the last check, processes of the job were alive without their keeper */
	bool kept;        /* at the last check, they were alive with their keeper, although its lock is gone */
	int *gpus; /* positions in the list of GPUs; an adopted job may use other GPUs that are not in the list */
	size_t num_gpus;
	struct placement_need need;
	struct claim *claim; /* until its keeper holds one; NULL: none, or not announced */
	uint64_t peak_bytes; /* the highest observed memory usage on one GPU */
	bool full;           /* at the last sample, its GPU was full, mostly because of this job */
	/* What was reported to its keeper. */
	int64_t told_peak_mb;
	int64_t told_span_ms; /* duration of the power measurement; 0: none */
	bool told_full, told_lost, told_settled;
	struct energy_meter energy;
	struct idle_watch idle;
	struct gpu_user user; /* its processes on the GPUs */
};

struct running *running_add(struct runner *r, uint64_t id);
/* Stores the scheduler's decision; 0 or -ENOMEM. */
int running_set_start(struct running *run, const struct scheduler_start *start);
/* Also removes it from the scheduler, if its end was not read. */
void running_remove(struct running *run);

/* Adds `change` (1 or -1) to the counters that this job belongs to. */
void running_count(struct running *run, int change);
/* The journal has a `stuck` line: the job cannot be killed. */
void running_set_stuck(struct running *run, const struct job *job);

/* Orders its keeper to end the job. at_once: with SIGKILL, without a grace period. */
void running_cancel(struct running *run, bool at_once);
/* The same because the allocation ends: the job will be pending again. */
void running_interrupt(struct running *run);

#endif
