/* SPDX-License-Identifier: MIT */
/*
 * A job that was handed to a keeper: one of this runner's, or one of an earlier runner.
 *
 * It is in the runner's list from the moment it is handed out until its end has been
 * read from the journal; on a real GPU, until that has been sampled once more, because its
 * memory is part of the last sample. The counters of struct runner (num_running,
 * num_stuck, num_cpu_jobs) change through running_count() alone.
 */
#ifndef QUEUE_RUNNER_RUNNING_H
#define QUEUE_RUNNER_RUNNING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pidref.h"
#include "queue/journal/job.h"
#include "queue/schedule/gpu_users.h"
#include "queue/schedule/ledger.h"

struct claim;
struct loop_source;
struct runner;
struct runner_keeper;

struct running {
	struct runner *runner;
	struct running *next;
	uint64_t id;
	struct runner_keeper *keeper; /* NULL: not ours, or it is gone */
	bool started;                 /* `start` has been read */
	enum job_state told_state;    /* the final state, as its keeper told us */
	bool ended;                   /* `end` has been read; kept until the next sample of the GPUs */
	bool foreign;                 /* on another machine: not ours to judge */
	bool stuck;                   /* it cannot be killed: its GPUs take no other job, and nobody waits for it */
	char stuck_words[JOB_STUCK_ROOM];
	uint64_t lost_ns;           /* when its keeper was found to be gone; 0: the keeper lives */
	bool left;                  /* processes of the job lived without their keeper when we last looked */
	struct pidref watched;      /* a keeper that is not ours; PIDREF_NONE: ours, or it cannot be watched */
	struct loop_source *source; /* of `watched` */
	int *gpus; /* positions in the list of GPUs; an adopted job may use others that are not in the list */
	size_t num_gpus;
	bool cpu_only; /* it uses no GPU at all */
	uint64_t promised_bytes;
	bool declared;
	struct claim *claim; /* until its keeper holds one; NULL: none, or not announced */
	struct ledger_watch watch;
	uint64_t peak_bytes; /* the most GPU memory it was seen to use on one GPU */
	bool full;           /* when last seen: its GPU was full, mostly because of this job */
	/* What its keeper has been told. */
	int64_t told_peak_mb;
	bool told_full, told_lost, told_settled;
	struct gpu_user user; /* its processes on the GPUs */
};

struct running *running_add(struct runner *r, uint64_t id);
void running_remove(struct running *run);

/* Adds `change` (1 or -1) to the counters that this job belongs to. */
void running_count(struct running *run, int change);
/* The journal says that the job cannot be killed. */
void running_set_stuck(struct running *run, const struct job *job);

/* Tells its keeper to end the job. at_once: with SIGKILL, without a grace period. */
void running_cancel(struct running *run, bool at_once);

#endif
