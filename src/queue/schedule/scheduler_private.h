/* SPDX-License-Identifier: MIT */
/* The state of a scheduler. Only scheduler*.c include this. */
#ifndef QUEUE_SCHEDULE_SCHEDULER_PRIVATE_H
#define QUEUE_SCHEDULE_SCHEDULER_PRIVATE_H

#include "queue/schedule/scheduler.h"

struct begin_time;
struct pending;

/* A job that holds GPUs, main memory or CPUs. */
struct holder {
	uint64_t id;
	struct placement_need need; /* without its pin */
	struct job *job;            /* as long as it was handed out and nothing else is known; NULL: adopted */
	bool ended;                 /* since the last sample */
	bool stuck;
	bool unknown; /* a record of it was lost: the journal may not know the job at all */
	char stuck_words[JOB_STUCK_ROOM];
	struct ledger_watch watch;
	int node; /* in a cluster; -1: not known */
	int64_t *pids;
	size_t num_pids, pids_capacity;
	size_t num_gpus;
	int gpus[];
};

/* A claim of another queue, with the memory that `entry` points to. */
struct foreign_claim {
	struct ledger_job entry;
	struct ledger_claimant claimant;
	int *gpus;
	int64_t *pids;
};

/* A GPU of the last sample, with the memory that it points to. */
struct sampled_gpu {
	struct gd_gpu gpu;
	struct gd_gpu_process *processes;
	const struct gd_gpu_process **pointers;
};

struct scheduler {
	const struct jobs *jobs;
	struct scheduler_settings settings;
	struct pending *pending;
	size_t num_blocked;
	struct begin_time **begins; /* ascending, see scheduler_begin.c */
	size_t num_begins, begins_capacity;
	size_t num_sleeping;
	struct job *late; /* jobs that do not fit before the end, a list as `dependents` */
	size_t num_late;
	bool late_stale;         /* jobs like some of them took less than was thought */
	struct run_times *times; /* NULL: not needed yet */
	int64_t wall_ms;         /* of the last scheduler_set_time() */
	struct job *ready;       /* jobs with dependencies, all of them completed: a list, as `dependents` */

	struct sampled_gpu *gpus;
	const struct gd_gpu **gpu_pointers;
	struct ledger_note *notes;
	size_t num_gpus;
	bool cluster;       /* scheduler_set_nodes() was called */
	bool regroup;       /* in a cluster: jobs took another time than was thought */
	int64_t regroup_ms; /* not before this time */
	struct ledger_node *nodes;
	size_t num_nodes;
	int *gpu_nodes;
	size_t num_gpu_nodes;
	struct holder **holders;
	size_t num_holders, holders_capacity;
	struct foreign_claim *claims;
	size_t num_claims;

	struct ledger ledger;
	struct placement_reservation reservation;
	uint64_t generation; /* see scheduler_generation() */
	bool ledger_stale;   /* an event changed what it was built from */
	bool pass_stale;     /* the next decision looks at all waiting jobs again */
	bool pass_started;   /* a job in this pass: another pass follows, until one starts nothing */
	bool hopeful;
	unsigned refusals;
	uint64_t not_before_ns;
	struct ledger_job *entries; /* scratch of the ledger */
	size_t entries_capacity;
	int chosen[SCHEDULER_MAX_GPUS];
	struct placement_verdict *verdicts; /* of the last scheduler_verdict() */
};

/* An event changed what the ledger is built from. */
static inline void scheduler_touch(struct scheduler *s)
{
	s->ledger_stale = true;
	s->generation++;
}

/* Puts a job into a list of jobs that wait for the same thing, linked by next_dependent; takes it out of its list. */
void scheduler_link(struct job **list, struct job *job);
void scheduler_unlink(struct job *job);
/* scheduler_begin.c: a job whose time has not come. */
int scheduler_sleep(struct scheduler *s, struct job *job);
void scheduler_unsleep(struct scheduler *s, struct job *job);
/* Without touching the jobs. */
void scheduler_forget_begins(struct scheduler *s);
/* In a cluster: when the job would be over if it started now; 0: not known. */
int64_t scheduler_over_ms(struct scheduler *s, const struct job *job);
/* For struct placement_need. */
int64_t scheduler_time_ms(struct scheduler *s, const struct job *job);
/* Takes a late job out of the index, and forgets that. */
void scheduler_set_aside(struct scheduler *s, struct job *job);
void scheduler_unset_aside(struct scheduler *s, struct job *job);
/* A job, or NULL, has ended: what it took counts for similar ones. */
void scheduler_late_completed(struct scheduler *s, const struct job *job);
/* Puts late jobs that fit after all in front of the list `due`, and returns it. */
struct job *scheduler_take_timely(struct scheduler *s, struct job *due);
void scheduler_say_late(struct text *t, const struct scheduler *s);
struct holder *scheduler_find(const struct scheduler *s, uint64_t id);
/* Adds a job that holds GPUs. NULL: no memory. */
struct holder *scheduler_hold(
	struct scheduler *s, uint64_t id, const struct placement_need *need, const int *gpus, size_t num_gpus);
/* Takes a job that waits for GPUs out of the index. */
void scheduler_unlist(struct scheduler *s, struct job *job);
void scheduler_let_go(struct scheduler *s, struct holder *h);
/* The ledger as of now, without one job (or NULL). 0 or -ENOMEM. */
int scheduler_build_ledger(struct scheduler *s, const struct holder *but);
/* Builds the ledger and begins a pass, where these are stale. */
int scheduler_refresh(struct scheduler *s);
void scheduler_job_need(struct scheduler *s, const struct job *job, struct placement_need *ret);
/* The first dependency that is not completed; NULL: none, or *ret_failed will never be completed. */
struct job *scheduler_dependency(
	const struct jobs *jobs, const struct job *job, uint64_t *ret_failed, const char **ret_how);

#endif
