/* SPDX-License-Identifier: MIT */
/*
 * Which waiting job starts next, and on which GPUs.
 *
 * Events go in, scheduler_decide() hands out starts one by one, and scheduler_verdict() explains why a
 * job waits. The order is: higher priority first, then the lower ID. The first job that does not fit
 * reserves GPUs; jobs behind it start only where they do not delay it. The scheduler does no I/O,
 * reads no clock and has no randomness: the same events give the same decisions, here and in every
 * process that loads what scheduler_inputs_write() wrote (scheduler_inputs.h).
 *
 * Jobs are those of the journal's fold. The scheduler uses the last members of struct job (`wait`,
 * `dependents`…), so each fold has at most one scheduler, which must be destroyed, or emptied with
 * scheduler_reset(), before jobs_reset() and jobs_finish(). GPUs are identified by their position in
 * the sample, which never changes after the first sample.
 */
#ifndef QUEUE_SCHEDULE_SCHEDULER_H
#define QUEUE_SCHEDULE_SCHEDULER_H

#include "base/text.h"
#include "queue/journal/jobs.h"
#include "queue/schedule/need.h"
#include "queue/schedule/placement.h"

/* No job gets more GPUs than this. */
#define SCHEDULER_MAX_GPUS 256

struct scheduler;

struct scheduler_settings {
	struct need_rules rules;
	unsigned cpus;       /* of the machine; a job without a GPU and without --cpus counts as one */
	uint64_t host_bytes; /* main memory; 0: not known */
	bool foreign_pids;   /* the driver's PIDs are not ours */
	int64_t timeout_ms;  /* default for jobs without a timeout; 0: none */
	int64_t end_ms;      /* when the runner's allocation ends, in wall-clock time; 0: never, or not known */
	char end_whose[48];  /* the name of the allocation: "Slurm job 12" */
};

struct scheduler_start {
	struct job *job;
	struct placement_need need;
	const int *gpus; /* positions, valid until the next event */
	size_t num_gpus;
	int node; /* in a cluster: the node of these GPUs, or of a job without GPUs; otherwise -1 */
};

/* `jobs` is read to find dependencies. */
int scheduler_create(const struct jobs *jobs, struct scheduler **ret);
void scheduler_destroy(struct scheduler *s);
/* Call it before the first job is added. */
void scheduler_configure(struct scheduler *s, const struct scheduler_settings *settings);
const struct scheduler_settings *scheduler_settings(const struct scheduler *s);

/* ---- Waiting jobs --------------------------------------------------------------------- */

/*
 * Adds a pending job. 0; -ENOMEM; or 1: a job that it waits for will never complete, so it was not
 * added, and ret_words has a message. A job that already waits, or was handed out and not withdrawn,
 * is not changed.
 */
#define SCHEDULER_WORDS 96
int scheduler_add(struct scheduler *s, struct job *job, char ret_words[SCHEDULER_WORDS]);
/* For a job that was cancelled, held, or changed and will be added again. Does nothing if it does not wait. */
void scheduler_remove(struct scheduler *s, struct job *job);
/* The job has reached a final state. Returns the jobs that waited for it, linked by next_dependent: add them again. */
struct job *scheduler_release(struct scheduler *s, struct job *job);
/* The job had ended and will run again: jobs that wait for it, and have not started, wait again. */
void scheduler_reopen(struct scheduler *s, struct job *job);
/* Forgets all waiting jobs without accessing them: their memory may be freed. */
int scheduler_reset(struct scheduler *s);

/*
 * Sets the wall-clock time. Returns jobs to add again, linked by next_dependent: those whose begin time
 * has come; those that were too long for the rest of the allocation and now fit; and, in a cluster, those
 * whose estimated duration has changed since they were added.
 */
struct job *scheduler_set_time(struct scheduler *s, int64_t now_ms);
/* The next begin time of a job; 0: no job waits for one. */
int64_t scheduler_next_begin(struct scheduler *s);

size_t scheduler_num_sleeping(const struct scheduler *s); /* jobs that wait for their begin time */
size_t scheduler_num_waiting(const struct scheduler *s);  /* jobs that wait for a GPU, or for the machine */
size_t scheduler_num_blocked(const struct scheduler *s);  /* jobs that wait for other jobs */
/* Calls `tell` for each distinct need of jobs that wait for a GPU or the machine, with their number: few calls, even
 * for many jobs. */
void scheduler_each_need(const struct scheduler *s,
	void (*tell)(void *context, const struct placement_need *need, size_t num_jobs), void *context);

/* ---- Jobs that hold GPUs -------------------------------------------------------------- */

/* Adds a running job that was not handed out here. GPUs below 0 are ignored. */
int scheduler_adopt(struct scheduler *s, const struct job *job, const int *gpus, size_t num_gpus);
/* Adds a job with a lost record that may be running. job NULL: its needs are unknown, and it shares GPUs with no other
 * job. */
int scheduler_adopt_unknown(struct scheduler *s, uint64_t id, const struct job *job, const int *gpus, size_t num_gpus);
/* The job's end was read. Until the next sample, the driver's figures still include its memory. */
void scheduler_end(struct scheduler *s, uint64_t id);
/* The same for each job that is neither running, pending nor unknown in the journal's fold. */
void scheduler_end_finished(struct scheduler *s);
/* The job was never started: it has not used a GPU. */
void scheduler_withdraw(struct scheduler *s, uint64_t id);
/* The job cannot be killed: its GPUs take no other job. */
void scheduler_set_stuck(struct scheduler *s, uint64_t id);
/* The job's processes on a GPU, as of the next sample. */
int scheduler_set_pids(struct scheduler *s, uint64_t id, const int64_t *pids, size_t count);
/* Whether the memory of the job has stopped growing. */
bool scheduler_is_settled(const struct scheduler *s, uint64_t id);
/* Whether the scheduler counts this job among those that hold GPUs. */
bool scheduler_has(const struct scheduler *s, uint64_t id);

/* ---- The machine ---------------------------------------------------------------------- */

/* Takes a new sample of the GPUs, which is copied. Jobs that ended before it are forgotten. 0 or -ENOMEM. */
int scheduler_sample(struct scheduler *s, uint64_t now_ns, const struct gd_gpu *const *gpus, size_t count);
/* Estimates the baselines of GPUs with running jobs or claims again. Call it if the first sample was taken before these
 * were known: their memory was counted as memory of other processes. */
void scheduler_correct_baselines(struct scheduler *s);
/* What is known about a GPU beyond the sample. */
const struct ledger_note *scheduler_note(const struct scheduler *s, size_t gpu);
/* The claims of other queues, which are copied. 0 or -ENOMEM. */
int scheduler_set_claims(struct scheduler *s, const struct ledger_job *claims, size_t count);
/* Whether one of these claims is on the GPU. */
bool scheduler_is_claimed(const struct scheduler *s, size_t gpu);

/* ---- The nodes of a cluster ------------------------------------------------------------ */

/*
 * After the first call, the GPUs belong to nodes: gpu_nodes has the node of each position of the
 * sample, -1: none. A job gets GPUs of one node, which is usable, has the main memory and CPUs, and
 * does not end before the job, as far as that is known. Main memory, CPUs and end_ms of the settings
 * are no longer used, and foreign_pids must be set: PIDs of two nodes may be equal. Node numbers and
 * GPU positions do not change; a node that is gone is not usable, and may be replaced by another node
 * when no job holds resources on it. Everything is copied. 0 or -ENOMEM.
 */
int scheduler_set_nodes(
	struct scheduler *s, const struct ledger_node *nodes, size_t num_nodes, const int *gpu_nodes, size_t num_gpus);
/* The node of an adopted job without GPUs. */
void scheduler_set_node(struct scheduler *s, uint64_t id, int node);

/* ---- The end of the allocation -------------------------------------------------------- */

/*
 * Whether a waiting job would still run at settings.end_ms, judged by the duration of similar
 * commands, at most its timeout, or by its timeout if that duration is not known. If neither is known,
 * the job is never late.
 */
bool scheduler_is_late(struct scheduler *s, const struct job *job);
/* Ignores the end of the allocation: the next runner has another allocation. */
void scheduler_forget_end(struct scheduler *s);
/* The time limit of the allocation was changed: settings.end_ms. */
void scheduler_set_end(struct scheduler *s, int64_t end_ms);
/* Number of waiting jobs that do not fit into the time until settings.end_ms. */
size_t scheduler_num_late(const struct scheduler *s);

/* ---- Deciding ------------------------------------------------------------------------- */

/*
 * The next start: 1; 0: nothing starts now; or -ENOMEM. The job then counts as holding its GPUs until
 * scheduler_end(), scheduler_withdraw() or scheduler_refuse().
 */
int scheduler_decide(struct scheduler *s, uint64_t now_ns, struct scheduler_start *ret);
/* Whether a job that was handed out still fits on its GPUs: there may be new claims. */
bool scheduler_still_fits(struct scheduler *s, uint64_t id);
/* The job does not fit: it waits again, and nothing starts before until_ns. */
int scheduler_refuse(struct scheduler *s, uint64_t id, uint64_t until_ns);
/* How many starts in a row were refused. */
unsigned scheduler_refusals(const struct scheduler *s);
/* When scheduler_decide() may return a start again after a refusal; 0: no delay. */
uint64_t scheduler_not_before(const struct scheduler *s);
/* As of the last pass: a waiting job may start when others end. */
bool scheduler_is_hopeful(const struct scheduler *s);

/* ---- Explaining ----------------------------------------------------------------------- */

enum scheduler_answer {
	SCHEDULER_STARTS,  /* it was handed out: it starts now */
	SCHEDULER_WAITS,   /* it waits for GPUs or the machine */
	SCHEDULER_NEVER,   /* these GPUs, or this machine, can never take it */
	SCHEDULER_BLOCKED, /* it waits for another job */
	SCHEDULER_BEGINS,  /* its begin time has not come */
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
	size_t num_within_reach; /* see placement_within_reach() */
	bool nodes_wait;         /* in a cluster: no node takes it now */
};

/* Call it when scheduler_decide() has returned 0: explains why the job waits behind everything that starts now. */
int scheduler_verdict(struct scheduler *s, const struct job *job, struct scheduler_verdict *ret);
/* The same for a job that does not exist: whether these GPUs could ever satisfy this need. */
int scheduler_judge(struct scheduler *s, const struct placement_need *need, struct scheduler_verdict *ret);

/* Complete lines for `gpuq why`. `describe` (or NULL) names processes. */
void scheduler_verdict_lines(struct text *t, const struct scheduler *s, const struct scheduler_verdict *v,
	placement_describe *describe, void *context);
/* A few words for a table: "GPUs busy", "after job 3", "needs 60.0 GiB, at most 50.0 GiB free". */
void scheduler_verdict_brief(struct text *t, const struct scheduler *s, const struct scheduler_verdict *v);

/* GPUs, and parts of the machine, that are reserved for the first job that does not fit. */
const struct placement_reservation *scheduler_reservation(const struct scheduler *s);
/* Changes whenever the output of scheduler_inputs_write() may change. */
uint64_t scheduler_generation(const struct scheduler *s);
/* The GPUs of the last sample. */
const struct gd_gpu *const *scheduler_gpus(const struct scheduler *s, size_t *ret_count);
/* Whether scheduler_set_nodes() was called, even if no node has joined yet. */
bool scheduler_is_cluster(const struct scheduler *s);
/* The node of a GPU; NULL: this is not a cluster, or the GPU has no node. */
const struct ledger_node *scheduler_node_of(const struct scheduler *s, size_t position);

#endif
