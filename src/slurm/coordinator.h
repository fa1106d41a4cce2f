/* SPDX-License-Identifier: MIT */
/*
 * The coordinator: runs a queue on a cluster. It follows the journal as a runner does, lets the scheduler decide which
 * job starts on which pilot, and executes the decisions of its core (coordinator_core.h) about pilots and attempts.
 *
 * Everything runs on one thread. Only coordinating_post() calls the core and executes its actions; answers that are
 * known at once (checks, outboxes) wait in a list until no call of the core is in progress. Another process syncs the
 * journal, once for all lines that were appended before the sync started.
 *
 * The coordinator exits when no job is left that can run and all pilots are gone; also if the waiting jobs fit no
 * pilot, if pilots fail repeatedly, or if Slurm refuses the options of all kinds (-EINVAL). On SIGTERM it exits at
 * once: pilots and their jobs continue, and the next coordinator finds them. After the first SIGINT it starts nothing
 * more; the second one terminates the running jobs, the third kills them, and after the fourth the coordinator does not
 * wait for nodes that do not answer.
 *
 * Hooks run on the coordinator's host. Jobs of `gpuq exec` run interactively on this host and cannot run on a pilot;
 * they fail with a message that explains this.
 */
#ifndef SLURM_COORDINATOR_H
#define SLURM_COORDINATOR_H

#include "queue/keeper/job_order.h"
#include "queue/runner/runner.h"
#include "slurm/coordinator_journal.h"

struct coordinator;

struct coordinator_options {
	struct journal *journal;
	const char *towards; /* see listener.h */
	int64_t lease_ms;    /* 0: 900 s */
	int64_t silence_ms;  /* 0: 15 s */
	int64_t min_free_mem_mb;
	int jobs_per_gpu;      /* 0: as many as fit in memory */
	const char *on_finish; /* or NULL */
	bool takeover;
	/* Kinds of pilots, as options of sbatch: a job gets a pilot of the first kind that fits it. Empty: Slurm is not
	 * used, and pilots are started externally. */
	const char *const *kinds;
	size_t num_kinds;
	const char *program;              /* gpuq-slurm, as nodes find it */
	unsigned max_nodes;               /* total of all kinds; 0: 1 */
	struct order_defaults order;      /* env and cwd are filled in */
	int64_t linger_ms;                /* exit when the queue has been empty for this long; -1: never */
	int max_failures;                 /* start nothing new after this many failures; 0: no limit */
	const struct runner_watch *watch; /* or NULL */
	void (*on_ready)(void *context);  /* called once the coordinator owns the queue; or NULL */
	void *context;
};

/* -EBUSY, without a message: *ret_holder runs the queue. */
int coordinator_create(
	const struct coordinator_options *options, struct coordinator **ret, pid_t *ret_holder, struct gd_error *err);
int coordinator_run(struct coordinator *c, struct runner_result *ret, struct gd_error *err);
void coordinator_destroy(struct coordinator *c);

#endif
