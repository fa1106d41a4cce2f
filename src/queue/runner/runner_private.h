/* SPDX-License-Identifier: MIT */
/*
 * The state of a runner. Only files of this directory include this.
 *
 * Everything runs on one thread, in callbacks of the loop. A callback that finds work
 * sets must_read, must_judge or must_place; the work is done once per round of the
 * loop, in this order, so that a job is never placed on an outdated state.
 * An error that ends the run is put into `fatal`, with its message in `error`.
 */
#ifndef QUEUE_RUNNER_RUNNER_PRIVATE_H
#define QUEUE_RUNNER_RUNNER_PRIVATE_H

#include "base/hash.h"
#include "base/machine.h"
#include "base/text.h"
#include "queue/journal/jobs.h"
#include "queue/runner/runner.h"
#include "queue/schedule/claim_proof.h"
#include "queue/schedule/claims.h"
#include "queue/schedule/ledger.h"
#include "queue/schedule/placement.h"

struct gpu_probe;
struct hook_wait;
struct loop;
struct loop_source;
struct pending;
struct runner_keeper;
struct running;

struct runner {
	struct journal *journal;
	struct runner_options options;
	const struct runner_watch *watch;
	struct runner_result result;
	struct machine machine;
	int lock_fd;
	uint64_t fence;
	bool fence_stale;

	struct loop *loop;
	struct loop_source *tick, *linger, *settle, *sync, *sample, *judge, *look;
	int watch_fd, signal_fd;
	struct journal_reader reader;
	struct jobs jobs;
	bool loading;
	bool sample_due;     /* the timer is set */
	uint64_t sampled_ns; /* 0: not yet */

	pid_t nursery_pid; /* 0: it died */
	bool subreaper;    /* orphans of our keepers, and no other processes, become our children */
	bool orphaned;     /* a nursery died: processes of its jobs may be our children now */
	int nursery_fd;
	int syncer_fd;
	bool sync_due;                 /* the timer is set */
	struct runner_keeper *keepers; /* a list */
	unsigned unborn;               /* keepers in a row that died before their first message */

	struct gpu_probe *probe; /* NULL: it died and could not be replaced yet */
	struct loop_source *probe_source;
	struct gd_gpu_list *gpus;
	char *gpu_spec; /* of the GPUs found at the start; NULL: the options' */
	bool simulated;
	struct ledger_note *notes; /* one per GPU */
	struct claims *claims;     /* NULL: simulated GPUs, or no place for them */
	struct claim *spare_claim; /* not in use, kept for the next job */
	struct claims_list others;
	struct claim_proofs proofs;
	char queue_name[HASH_TEXT];
	unsigned back_offs; /* in a row */
	struct ledger ledger;
	struct placement_reservation reservation;
	struct pending *pending;

	struct running *running; /* a list */
	size_t num_running;      /* without jobs on other machines, stuck jobs and jobs that have ended */
	size_t num_stuck;
	size_t num_cpu_jobs;
	size_t num_blocked; /* jobs that wait for other jobs */
	bool waits_for_gpu; /* as of the last pass: a job may start when others end */
	long max_cpu_jobs;
	struct hook_wait *hooks, *last_hook; /* hooks that are due: a list, and its end */
	struct text to_append;               /* lines for the journal, appended at the end of the round */

	bool must_read, must_place, must_judge;
	unsigned troubles;       /* bits 1u << enum runner_trouble: reported and not over */
	int removed_ms;          /* how long the journal's folder has been missing */
	uint64_t pause_until_ns; /* no job is started before this time; 0: no pause */
	bool blocked;            /* the end of a job cannot be written */
	int interrupts;          /* how often Ctrl-C was pressed */
	bool leaving;            /* SIGTERM came */
	bool lingering;          /* the queue has been empty for linger_ms */
	uint64_t failures;
	char own_env[HASH_TEXT]; /* environment for jobs without one: those of the first gpu_dispatch */
	char *own_cwd;           /* directory for the same jobs: where the journal is; NULL: not needed yet */
	struct text words;       /* lines for people that were not written yet */
	uint64_t unsaid;         /* lines that were dropped because too many waited */
	char *latest;            /* log that the link `latest` is to point to */
	struct gd_error error;
	int fatal;
};

#endif
