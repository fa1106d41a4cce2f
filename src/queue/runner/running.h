/* SPDX-License-Identifier: MIT */
/*
 * A job that was handed to a keeper: one of this runner's, or one of an earlier runner.
 *
 * It is in the runner's list from the moment it is handed out until its end has been
 * read from the journal. The scheduler knows what it holds. The counters of struct
 * runner_executing (num_running, num_stuck) change through running_count() alone.
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
	struct runner_keeper *keeper; /* NULL: it is gone, cannot be reached, or is not looked for yet */
	bool started;                 /* `start` has been read */
	enum job_state told_state;    /* the final state, as its keeper told us */
	bool foreign;                 /* on another machine: not ours to judge */
	bool stuck;                   /* it cannot be killed: its GPUs take no other job, and nobody waits for it */
	uint64_t lost_ns;             /* when its keeper was found to be gone; 0: the keeper lives */
	bool left;                    /* processes of the job lived without their keeper when we last looked */
	int *gpus; /* positions in the list of GPUs; an adopted job may use others that are not in the list */
	size_t num_gpus;
	struct placement_need need;
	struct claim *claim; /* until its keeper holds one; NULL: none, or not announced */
	uint64_t peak_bytes; /* the most GPU memory it was seen to use on one GPU */
	bool full;           /* when last seen: its GPU was full, mostly because of this job */
	/* What its keeper has been told. */
	int64_t told_peak_mb;
	int64_t told_span_ms; /* of the measured power; 0: nothing */
	bool told_full, told_lost, told_settled;
	struct energy_meter energy;
	struct idle_watch idle;
	struct gpu_user user; /* its processes on the GPUs */
};

struct running *running_add(struct runner *r, uint64_t id);
/* What the scheduler decided; 0 or -ENOMEM. */
int running_set_start(struct running *run, const struct scheduler_start *start);
/* Also takes it from the scheduler, if its end was not read. */
void running_remove(struct running *run);

/* Adds `change` (1 or -1) to the counters that this job belongs to. */
void running_count(struct running *run, int change);
/* The journal says that the job cannot be killed. */
void running_set_stuck(struct running *run, const struct job *job);

/* Tells its keeper to end the job. at_once: with SIGKILL, without a grace period. */
void running_cancel(struct running *run, bool at_once);
/* The same because the allocation ends: the job will be pending again. */
void running_interrupt(struct running *run);

#endif
