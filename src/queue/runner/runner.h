/* SPDX-License-Identifier: MIT */
/*
 * Starts jobs on GPUs with enough free space, until no job is left.
 *
 * There is one runner per journal: it holds runner.lock. It writes very little itself, and all its state comes from the
 * journal: if a runner dies, nothing is lost except decisions that it has not executed.
 *
 * Taking over: take runner.lock → read all → under the append lock, raise the fence and read the rest → check the
 * keeper's lock of each running job of this machine. If the lock is held, the keeper is watched by pidfd; if not,
 * processes that the attempt left behind are killed, and the attempt is recorded as failed ("keeper lost", or "machine
 * restarted").
 *
 * Renaming: if the directory of the queue was renamed, the run ends with `moved`. Running jobs continue, because their
 * keepers append by descriptor. The caller opens the journal at its new path, with all checks, and creates another
 * runner, which takes over the jobs.
 *
 * Leaving: under the append lock, if all lines are read and nothing is left to do, the runner releases runner.lock.
 * `add` checks runner.lock after its append. So either the runner sees the job, or `add` sees that there is no runner.
 */
#ifndef QUEUE_RUNNER_RUNNER_H
#define QUEUE_RUNNER_RUNNER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "gpu_dispatch.h"
#include "queue/journal/job.h"
#include "queue/journal/journal.h"
#include "queue/keeper/job_order.h"

struct runner_result {
	uint64_t completed, failed, cancelled; /* jobs that ended while it ran */
	bool interrupted;
	bool moved;              /* the directory of the queue was renamed: create a runner at journal_locate() */
	int kept_lock;           /* if moved: runner.lock, still held, so that no other runner takes the queue */
	bool left_running;       /* by SIGTERM: jobs continue without it */
	uint64_t left_stuck;     /* jobs that cannot be killed */
	uint64_t left_elsewhere; /* jobs that run on other machines */
	uint64_t left_unknown;   /* jobs with a lost record */
	uint64_t left_lost;      /* jobs whose `add` was lost, until the journal is repaired */
	uint64_t left_pending;   /* jobs that can never run on these GPUs, or that come after --max-failures */
};

/* A job that runs or is about to run. */
struct runner_job {
	const struct job *job;
	const int *gpus; /* positions in the list of GPUs */
	size_t num_gpus;
	bool started; /* its command runs, as far as the journal has been read */
};

/* The current state; valid during the call. */
struct runner_now {
	const struct gd_gpu_list *gpus;
	const char *const *nodes; /* in a cluster, the node of each GPU, or NULL for a hidden GPU. NULL: this machine */
	const struct runner_job *running;
	size_t num_running;
	size_t num_others; /* how many of these are jobs of other runners, which are shown but not counted; a runner
			      sets 0 */
	uint64_t waiting;  /* jobs that wait for a GPU or for other jobs, without held jobs */
	const struct runner_result *result;
	int interrupts; /* how many times Ctrl-C was pressed */
	bool over;      /* this is the last call */
};

/* An observer of the run. Called by runner_run(), on its thread; any member may be NULL. */
struct runner_watch {
	void *context;
	/* Gets the output lines instead of `out`. */
	void (*say)(void *context, const char *lines, size_t size);
	/* The state of a job changed; old: its previous state, -1 for a new job. The runner then prints nothing about
	 * it. */
	void (*changed)(void *context, const struct job *job, int old);
	/* Called at the beginning, every period_ms, and at the end. */
	void (*look)(void *context, const struct runner_now *now);
	int64_t period_ms;
};

struct runner_options {
	const char *gpus; /* specification; NULL: auto */
	int64_t min_free_mem_mb;
	int64_t poll_interval_ms;
	int64_t linger_ms;    /* exits when the queue has been empty for this long; -1: never (--keep) */
	int64_t idle_warn_ms; /* 0: never */
	int jobs_per_gpu;     /* 0: as many as fit into memory */
	bool cpu_affinity;    /* jobs run on the CPUs of their GPUs' NUMA nodes */
	int max_failures;     /* 0: no limit */
	/* The result of the previous runner, if it ended with `moved`. Its jobs count, and the new runner takes over
	 * its lock. */
	struct runner_result so_far;
	struct order_defaults order;
	const char *on_finish;
	const char *on_idle; /* for jobs without their own */
	bool quiet;
	bool verbose; /* also print decisions */
	FILE *out;    /* output lines */
	/* Called when the runner has taken over the queue and no foreseeable error is left. May be NULL. */
	void (*on_ready)(void *context);
	void *context;
};

struct runner;

/*
 * 0 with the runner's lock held; -EBUSY if another process holds it, with its PID in *ret_holder.
 * Forks the nursery: call it while the process uses little memory.
 */
int runner_create(struct journal *j, const struct runner_options *options, struct runner **ret, pid_t *ret_holder,
	struct gd_error *err);
/* Call it before runner_run(); NULL: no observer. The caller keeps ownership. */
void runner_set_watch(struct runner *r, const struct runner_watch *watch);
int runner_run(struct runner *r, struct runner_result *ret, struct gd_error *err);
void runner_destroy(struct runner *r);

#endif
