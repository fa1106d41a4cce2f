/* SPDX-License-Identifier: MIT */
/*
 * Starts jobs on GPUs with room for them, until none is left.
 *
 * One per journal: it holds runner.lock. It writes next to nothing itself; what
 * it knows, it has read from the journal, and what it forgets when it dies is
 * only what it had meant to do.
 *
 * Taking over: runner.lock → read all → under the append lock, raise the fence
 * and read the rest → for each running job of this machine, is its keeper's lock
 * held? If so the keeper is watched by pidfd; if not, the attempt is failed
 * ("keeper lost", or "machine restarted"), after what it left behind is killed.
 *
 * Leaving: under the append lock, with all read and nothing left to do, runner.lock is
 * given up. `add` looks at runner.lock after its append. So either the runner
 * sees the job, or `add` sees that there is no runner.
 */
#ifndef QUEUE_RUNNER_RUNNER_H
#define QUEUE_RUNNER_RUNNER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "gpu_dispatch.h"
#include "queue/journal/job.h"
#include "queue/journal/journal.h"
#include "queue/keeper/attempt_log.h"

struct runner_result {
	uint64_t completed, failed, cancelled; /* that ended while it ran */
	bool interrupted;
	bool left_running;       /* by SIGTERM: jobs go on without it */
	uint64_t left_stuck;     /* that cannot be killed */
	uint64_t left_elsewhere; /* that run on other machines */
	uint64_t left_unknown;   /* of which a record was lost */
	uint64_t left_lost;      /* whose `add` was lost, until the journal is repaired */
	uint64_t left_pending;   /* that these GPUs can never take, or that come after --max-failures */
};

/* A job that runs, or is about to. */
struct runner_job {
	const struct job *job;
	const int *gpus; /* positions in the list of GPUs */
	size_t num_gpus;
	bool started; /* its command runs, as far as we have read */
};

/* How things stand; valid during the call. */
struct runner_now {
	const struct gd_gpu_list *gpus;
	const char *const *nodes; /* of each GPU, in a cluster; NULL: it is not to be shown. NULL: this machine */
	const struct runner_job *running;
	size_t num_running;
	size_t num_others; /* of these, which are shown on their GPUs but not counted; the runner itself counts all */
	uint64_t waiting;  /* for a GPU or for other jobs; without those that are held */
	const struct runner_result *result;
	int interrupts; /* Ctrl-C, so often */
	bool over;      /* this is the last time */
};

/* Somebody who looks on. Called by runner_run(), on its thread; any of these may be NULL. */
struct runner_watch {
	void *context;
	/* Gets the lines for people instead of `out`. */
	void (*say)(void *context, const char *lines, size_t size);
	/* A job has another state; old: its last one, -1 for a new one. Then the runner says nothing of it itself. */
	void (*changed)(void *context, const struct job *job, int old);
	/* At the beginning, every period_ms, and at the end. */
	void (*look)(void *context, const struct runner_now *now);
	int64_t period_ms;
};

struct runner_options {
	const char *gpus; /* specification; NULL: auto */
	int64_t min_free_mem_mb;
	int64_t poll_interval_ms;
	int64_t linger_ms; /* leaves when the queue has been empty for so long; -1: never (--keep) */
	int64_t timeout_ms;
	int64_t idle_warn_ms; /* 0: never */
	int64_t grace_ms;
	int jobs_per_gpu;  /* 0: as memory allows */
	bool cpu_affinity; /* jobs run on the CPUs of their GPUs' NUMA nodes */
	int retries;
	int max_failures;    /* 0: no limit */
	const char *log_dir; /* absolute */
	bool log_accepted;   /* other users may change log_dir */
	enum log_access log_access;
	int64_t max_log_bytes; /* 0: no limit */
	const char *on_finish;
	const char *on_idle; /* of jobs that have none of their own */
	bool quiet;
	bool verbose; /* also lines about decisions */
	FILE *out;    /* where lines for people go */
	/* It has the queue in hand: nothing that is known beforehand can fail any more. May be NULL. */
	void (*on_ready)(void *context);
	void *context;
};

struct runner;

/*
 * 0 with the runner's lock held; -EBUSY where another has it, with its PID in *ret_holder. The
 * nursery is forked here: call it before anything big is in memory.
 */
int runner_create(struct journal *j, const struct runner_options *options, struct runner **ret, pid_t *ret_holder,
	struct gd_error *err);
/* Before runner_run(); NULL: nobody looks on. Stays the caller's. */
void runner_set_watch(struct runner *r, const struct runner_watch *watch);
int runner_run(struct runner *r, struct runner_result *ret, struct gd_error *err);
void runner_destroy(struct runner *r);

#endif
