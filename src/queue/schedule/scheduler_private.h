/* SPDX-License-Identifier: MIT */
/* The state of a scheduler. Only scheduler*.c include this. */
#ifndef QUEUE_SCHEDULE_SCHEDULER_PRIVATE_H
#define QUEUE_SCHEDULE_SCHEDULER_PRIVATE_H

#include "queue/schedule/scheduler.h"

struct begin_time;
struct pending;

/* A job that holds GPUs, main memory or CPUs. */
struct holder {
	struct holder *previous, *next; /* in the order in which they were added */
	struct holder *next_in_slot;    /* of the table */
	uint64_t id;
	struct placement_need need; /* without its pin */
	struct job *job;            /* while it is handed out and nothing else is known; NULL: adopted */
	bool ended;                 /* ended since the last sample */
	bool stuck;
	bool unknown; /* a record of it was lost: the journal may not have the job at all */
	char stuck_words[JOB_STUCK_ROOM];
	struct ledger_watch watch;
	int node; /* in a cluster; -1: not known */
	int64_t *pids;
	size_t num_pids, pids_capacity;
	size_t num_gpus;
	int gpus[];
};

/* See scheduler_holders.c. */
struct holders {
	struct holder *first, *last;
	size_t count;
	struct holder **table; /* by id */
	size_t table_size;     /* a power of two */
	uint64_t seed;
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
	struct job *late; /* jobs that do not fit before the end, a list like `dependents` */
	size_t num_late;
	bool late_stale;         /* jobs similar to some of them took less time than estimated */
	struct run_times *times; /* NULL: not needed yet */
	int64_t wall_ms;         /* from the last scheduler_set_time() */
	struct job *ready;       /* jobs whose dependencies have all completed: a list, like `dependents` */

	struct sampled_gpu *gpus;
	const struct gd_gpu **gpu_pointers;
	struct ledger_note *notes;
	size_t num_gpus;
	bool cluster;       /* scheduler_set_nodes() was called */
	bool regroup;       /* in a cluster: durations differed from the estimates */
	int64_t regroup_ms; /* not before this time */
	struct ledger_node *nodes;
	size_t num_nodes;
	int *gpu_nodes;
	size_t num_gpu_nodes;
	struct holders holders;
	struct foreign_claim *claims;
	size_t num_claims;

	struct ledger ledger;
	struct placement_reservation reservation;
	uint64_t generation; /* see scheduler_generation() */
	bool ledger_stale;   /* an event changed the ledger's inputs */
	bool pass_stale;     /* the next decision considers all waiting jobs again */
	bool pass_started;   /* a job was started in this pass: another pass follows, until one starts nothing */
	bool hopeful;
	unsigned refusals;
	uint64_t not_before_ns;
	struct ledger_job *entries; /* scratch memory of the ledger */
	size_t entries_capacity;
	int chosen[SCHEDULER_MAX_GPUS];
	struct placement_verdict *verdicts; /* from the last scheduler_verdict() */
};

/* An event changed the ledger's inputs. */
static inline void scheduler_touch(struct scheduler *s)
{
	s->ledger_stale = true;
	s->generation++;
}

/* Puts a job into a list of jobs that wait for the same thing, linked by next_dependent; removes it from its list. */
void scheduler_link(struct job **list, struct job *job);
void scheduler_unlink(struct job *job);
/* scheduler_begin.c: a job whose begin time has not come. */
int scheduler_sleep(struct scheduler *s, struct job *job);
void scheduler_unsleep(struct scheduler *s, struct job *job);
/* Does not access the jobs. */
void scheduler_forget_begins(struct scheduler *s);
/* In a cluster: when the job would end if it started now; 0: not known. */
int64_t scheduler_over_ms(struct scheduler *s, const struct job *job);
/* For struct placement_need. */
int64_t scheduler_time_ms(struct scheduler *s, const struct job *job);
/* Moves a late job from the index to the list of late jobs; removes it from that list. */
void scheduler_set_aside(struct scheduler *s, struct job *job);
void scheduler_unset_aside(struct scheduler *s, struct job *job);
/* A job, or NULL, has ended: its duration is used for estimates. */
void scheduler_late_completed(struct scheduler *s, const struct job *job);
/* Puts late jobs that now fit in front of the list `due`, and returns it. */
struct job *scheduler_take_timely(struct scheduler *s, struct job *due);
void scheduler_say_late(struct text *t, const struct scheduler *s);
struct holder *scheduler_find(const struct scheduler *s, uint64_t id);
/* Adds a job that holds GPUs. NULL: out of memory. */
struct holder *scheduler_hold(
	struct scheduler *s, uint64_t id, const struct placement_need *need, const int *gpus, size_t num_gpus);
/* Removes a job that waits for GPUs from the index. */
void scheduler_unlist(struct scheduler *s, struct job *job);
void scheduler_let_go(struct scheduler *s, struct holder *h);
void scheduler_forget_holders(struct scheduler *s);
/* Builds the current ledger, without one job (or NULL). 0 or -ENOMEM. */
int scheduler_build_ledger(struct scheduler *s, const struct holder *but);
/* Builds the ledger and begins a pass, if these are stale. */
int scheduler_refresh(struct scheduler *s);
void scheduler_job_need(struct scheduler *s, const struct job *job, struct placement_need *ret);
/* The first dependency that has not completed; NULL: none, or *ret_failed will never complete. */
struct job *scheduler_dependency(
	const struct jobs *jobs, const struct job *job, uint64_t *ret_failed, const char **ret_how);

#endif
