/* SPDX-License-Identifier: MIT */
/*
 * The coordinator: runs a queue on a cluster. It follows the journal as a runner does, lets the scheduler decide which
 * job starts on which pilot, and does what its core (coordinator_core.h) decides about pilots and attempts.
 *
 * Everything runs on one thread. The core is called by coordinating_post() alone, which executes its actions; answers
 * that are known at once (checks, outboxes) wait in a list until no call of the core is under way. Syncs of the
 * journal are made by another process, one for all lines that were appended before it began.
 *
 * It leaves when no job is left that can run and all pilots are gone; also if jobs wait that no pilot takes, or if
 * pilots fail again and again. On SIGTERM it leaves at once: pilots and their jobs go on, and the next coordinator
 * finds them. On SIGINT nothing more is started; the second one ends what runs, the third kills it, and after the
 * fourth nobody waits for nodes that do not answer.
 *
 * Hooks run on the coordinator's host. Jobs of `gpuq exec`, whose commands run in front of somebody on this host, fail
 * with words that say so.
 */
#ifndef SLURM_COORDINATOR_H
#define SLURM_COORDINATOR_H

#include "queue/runner/runner.h"
#include "slurm/coordinator_journal.h"
#include "slurm/coordinator_order.h"

struct coordinator;

struct coordinator_options {
	struct journal *journal;
	const char *towards; /* see listener.h */
	int64_t lease_ms;    /* 0: 900 s */
	int64_t silence_ms;  /* 0: 15 s */
	int64_t min_free_mem_mb;
	int jobs_per_gpu; /* 0: as memory allows */
	int retries;
	const char *on_finish; /* or NULL */
	bool takeover;
	/* Kinds of pilots, as options of sbatch: a job gets a pilot of the first kind that takes it. None: Slurm is not
	 * asked, and pilots are started by others. */
	const char *const *kinds;
	size_t num_kinds;
	const char *program;              /* gpuq-slurm, as nodes find it */
	unsigned max_nodes;               /* of all kinds together; 0: 1 */
	struct order_defaults order;      /* env and cwd are filled in */
	int64_t linger_ms;                /* leaves when the queue has been empty for so long; -1: never */
	int max_failures;                 /* starts nothing new after so many; 0: no limit */
	const struct runner_watch *watch; /* NULL: nobody looks on */
	void (*on_ready)(void *context);  /* it has the queue; or NULL */
	void *context;
};

/* -EBUSY, without words: *ret_holder runs the queue. */
int coordinator_create(
	const struct coordinator_options *options, struct coordinator **ret, pid_t *ret_holder, struct gd_error *err);
int coordinator_run(struct coordinator *c, struct runner_result *ret, struct gd_error *err);
void coordinator_destroy(struct coordinator *c);

#endif
