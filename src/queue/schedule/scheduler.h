/* SPDX-License-Identifier: MIT */
/*
 * Which waiting job starts next, and on which GPUs.
 *
 * Events go in, scheduler_decide() hands out starts one by one, and scheduler_verdict() explains why a job waits.
 * The order is: higher priority first, then the lower id. The first job that does not fit reserves GPUs; jobs
 * behind it start only where they do not delay it. The scheduler does no I/O, reads no clock and
 * has no randomness: the same events give the same decisions, here and in every process that loads
 * what scheduler_publish() wrote (scheduler_inputs.h).
 *
 * Jobs are those of the journal's fold. The scheduler uses the last members of struct job (`wait`, `dependents`…),
 * so each fold has at most one scheduler, which must be destroyed, or emptied with scheduler_reset(), before
 * jobs_reset() and jobs_finish(). GPUs are known by their position in the sample, which never changes once
 * there was one.
 */
#ifndef QUEUE_SCHEDULE_SCHEDULER_H
#define QUEUE_SCHEDULE_SCHEDULER_H

#include "base/text.h"
#include "queue/journal/jobs.h"
#include "queue/schedule/need.h"
#include "queue/schedule/placement.h"

/* More GPUs than this no job gets. */
#define SCHEDULER_MAX_GPUS 256

struct scheduler;

struct scheduler_settings {
	struct need_rules rules;
	unsigned cpus;       /* of the machine; a job without a GPU and without --cpus counts as one */
	uint64_t host_bytes; /* main memory; 0: not known */
	bool foreign_pids;   /* PIDs of the driver are not ours */
	int64_t timeout_ms;  /* of jobs that do not say; 0: none */
	int64_t end_ms;      /* when the allocation of the runner ends, in wall-clock time; 0: never, or not known */
	char end_whose[48];  /* what ends then: "Slurm job 12" */
};

struct scheduler_start {
	struct job *job;
	struct placement_need need;
	const int *gpus; /* positions, valid until the next event */
	size_t num_gpus;
	int node; /* in a cluster: whose GPUs these are, and where a job without GPUs runs; otherwise -1 */
};

/* `jobs` is read to find dependencies. */
int scheduler_create(const struct jobs *jobs, struct scheduler **ret);
void scheduler_destroy(struct scheduler *s);
/* Before the first job is added. */
void scheduler_configure(struct scheduler *s, const struct scheduler_settings *settings);
const struct scheduler_settings *scheduler_settings(const struct scheduler *s);

/* ---- Jobs that wait ------------------------------------------------------------------- */

/*
 * A pending job. 0; -ENOMEM; or 1: a job that it waits for will never be completed, so it was not added. Then
 * ret_words says so. A job that waits already, or was handed out and not withdrawn, stays as it is.
 */
#define SCHEDULER_WORDS 96
int scheduler_add(struct scheduler *s, struct job *job, char ret_words[SCHEDULER_WORDS]);
/* Cancelled, held, or to be added again because it was changed; nothing where the job does not wait. */
void scheduler_remove(struct scheduler *s, struct job *job);
/* The job has reached a final state. Returns the jobs that waited for it, linked by next_dependent: add them again. */
struct job *scheduler_release(struct scheduler *s, struct job *job);
/* The job was over and is to run again: jobs that wait for it, and have not started, wait again. */
void scheduler_reopen(struct scheduler *s, struct job *job);
/* Forgets all jobs that wait, without touching them: their memory may be gone. */
int scheduler_reset(struct scheduler *s);

/*
 * What the wall clock shows. Returns the jobs whose time to begin has come, and those that were too long for the rest
 * of the allocation by an estimate that has changed, linked by next_dependent: add them again. In a cluster also jobs
 * that are now thought to take a longer or shorter time than when they were added.
 */
struct job *scheduler_set_time(struct scheduler *s, int64_t now_ms);
/* The next time at which a job begins; 0: none waits for one. */
int64_t scheduler_next_begin(struct scheduler *s);

size_t scheduler_num_sleeping(const struct scheduler *s); /* until their time to begin */
size_t scheduler_num_waiting(const struct scheduler *s);  /* for a GPU, or for the machine */
size_t scheduler_num_blocked(const struct scheduler *s);  /* for other jobs */
/* Calls `tell` for each need that jobs wait with for a GPU or the machine, and how many do: few, however many jobs. */
void scheduler_each_need(const struct scheduler *s,
	void (*tell)(void *context, const struct placement_need *need, size_t num_jobs), void *context);

/* ---- Jobs that hold GPUs -------------------------------------------------------------- */

/* A job that runs without having been handed out here. GPUs below 0 are ignored. */
int scheduler_adopt(struct scheduler *s, const struct job *job, const int *gpus, size_t num_gpus);
/* A job that may run, of which a record was lost. job NULL: nothing is known of its needs, and it shares with none. */
int scheduler_adopt_unknown(struct scheduler *s, uint64_t id, const struct job *job, const int *gpus, size_t num_gpus);
/* Its end was read. Until the next sample its memory is part of what the driver says. */
void scheduler_end(struct scheduler *s, uint64_t id);
/* The same for each job that is neither running, pending nor unknown in the journal's fold. */
void scheduler_end_finished(struct scheduler *s);
/* It was never started after all: nothing of it has touched a GPU. */
void scheduler_withdraw(struct scheduler *s, uint64_t id);
/* It cannot be killed: its GPUs take no other job. */
void scheduler_set_stuck(struct scheduler *s, uint64_t id);
/* Its processes that are on a GPU, as of the next sample. */
int scheduler_set_pids(struct scheduler *s, uint64_t id, const int64_t *pids, size_t count);
/* Whether the memory of the job has stopped growing. */
bool scheduler_is_settled(const struct scheduler *s, uint64_t id);
/* Whether the scheduler counts this job among those that hold GPUs. */
bool scheduler_has(const struct scheduler *s, uint64_t id);

/* ---- The machine ---------------------------------------------------------------------- */

/* GPUs were sampled; the sample is copied. Jobs that have ended before it are forgotten. 0 or -ENOMEM. */
int scheduler_sample(struct scheduler *s, uint64_t now_ns, const struct gd_gpu *const *gpus, size_t count);
/* What is known of a GPU beyond the sample. */
const struct ledger_note *scheduler_note(const struct scheduler *s, size_t gpu);
/* The claims of other queues, which are copied. 0 or -ENOMEM. */
int scheduler_set_claims(struct scheduler *s, const struct ledger_job *claims, size_t count);

/* ---- The nodes of a cluster ------------------------------------------------------------ */

/*
 * From the first call on the GPUs belong to nodes: gpu_nodes has the node of each position of the sample, -1: none. A
 * job gets GPUs of one node, which is usable, has the main memory and CPUs, and does not end before the job is over, as
 * far as that is known. Main memory and CPUs of the settings, and their end_ms, are not used any more, and foreign_pids
 * must be set: PIDs of two nodes may be equal. Numbers of nodes and positions of GPUs stay; a node that is gone is not
 * usable, and may be replaced by another one when no job holds anything of it. Everything is copied. 0 or -ENOMEM.
 */
int scheduler_set_nodes(
	struct scheduler *s, const struct ledger_node *nodes, size_t num_nodes, const int *gpu_nodes, size_t num_gpus);
/* Where an adopted job without GPUs runs. */
void scheduler_set_node(struct scheduler *s, uint64_t id, int node);

/* ---- The end of the allocation -------------------------------------------------------- */

/*
 * Whether a waiting job would not be over at settings.end_ms: by what similar commands took, at most its timeout, or by
 * its timeout where that is not known. A job of which neither is known is never late.
 */
bool scheduler_is_late(struct scheduler *s, const struct job *job);
/* As if the allocation did not end: the next runner is in another one. */
void scheduler_forget_end(struct scheduler *s);

/* ---- Deciding ------------------------------------------------------------------------- */

/*
 * The next start: 1; 0: nothing starts now; or -ENOMEM. The job counts as holding its GPUs from here on, until
 * scheduler_end(), scheduler_withdraw() or scheduler_refuse().
 */
int scheduler_decide(struct scheduler *s, uint64_t now_ns, struct scheduler_start *ret);
/* Whether the GPUs of a job that was handed out still have room for it: claims may have come since. */
bool scheduler_still_fits(struct scheduler *s, uint64_t id);
/* They have not. The job waits again, and nothing starts before until_ns. */
int scheduler_refuse(struct scheduler *s, uint64_t id, uint64_t until_ns);
/* How many starts in a row were refused. */
unsigned scheduler_refusals(const struct scheduler *s);
/* When scheduler_decide() may have something again after a refusal; 0: it does not wait. */
uint64_t scheduler_not_before(const struct scheduler *s);
/* As of the last pass: a job waits that may start when others end. */
bool scheduler_is_hopeful(const struct scheduler *s);

/* ---- Explaining ----------------------------------------------------------------------- */

enum scheduler_answer {
	SCHEDULER_STARTS,  /* it was handed out: it starts now */
	SCHEDULER_WAITS,   /* for GPUs or the machine */
	SCHEDULER_NEVER,   /* these GPUs, or this machine, can never take it */
	SCHEDULER_BLOCKED, /* it waits for another job */
	SCHEDULER_BEGINS,  /* its time has not come */
	SCHEDULER_LATE,    /* it does not fit into the time until settings.end_ms, so it does not start here */
	SCHEDULER_UNKNOWN, /* not a waiting job */
};

/* "starts", "waits"… */
const char *scheduler_answer_name(enum scheduler_answer answer);

struct scheduler_verdict {
	enum scheduler_answer answer;
	struct placement_need need;
	enum placement_host host;
	const struct job *after; /* SCHEDULER_BLOCKED: the job it waits for */
	int64_t begin_ms;        /* SCHEDULER_BEGINS */
	/* One for each GPU; for SCHEDULER_WAITS and SCHEDULER_NEVER. Valid until the next call. */
	const struct placement_verdict *gpus;
	size_t num_gpus;
	bool nodes_wait; /* in a cluster: no node takes it now */
};

/* Call it when scheduler_decide() has returned 0: it explains the job's wait behind all that starts now. */
int scheduler_verdict(struct scheduler *s, const struct job *job, struct scheduler_verdict *ret);
/* The same for a need of a job that does not exist: whether these GPUs could ever take it. */
int scheduler_judge(struct scheduler *s, const struct placement_need *need, struct scheduler_verdict *ret);

/* Lines for `gpuq why`, each with its newline. `describe` (or NULL) names processes. */
void scheduler_verdict_lines(struct text *t, const struct scheduler *s, const struct scheduler_verdict *v,
	placement_describe *describe, void *context);
/* A few words for a table: "GPUs busy", "after job 3", "60.0 GB needed, at most 50.0 GB free". */
void scheduler_verdict_brief(struct text *t, const struct scheduler *s, const struct scheduler_verdict *v);

/* GPUs, and parts of the machine, that are kept for the first job that does not fit. */
const struct placement_reservation *scheduler_reservation(const struct scheduler *s);
/* Changes whenever scheduler_inputs_write() may write something else. */
uint64_t scheduler_generation(const struct scheduler *s);
/* The GPUs of the last sample. */
const struct gd_gpu *const *scheduler_gpus(const struct scheduler *s, size_t *ret_count);
/* The node of one of them; NULL: this is not a cluster, or the GPU has none. */
const struct ledger_node *scheduler_node_of(const struct scheduler *s, size_t position);

#endif
