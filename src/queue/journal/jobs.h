/* SPDX-License-Identifier: MIT */
/*
 * All jobs of a journal: a fold over its lines.
 *
 * Jobs, attempts and keepers stay in the fold's memory until jobs_finish() or jobs_reset(). Strings of a job_wish are
 * interned: equal strings have equal addresses. Invalid lines are counted and ignored.
 */
#ifndef QUEUE_JOURNAL_JOBS_H
#define QUEUE_JOURNAL_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "queue/journal/job.h"
#include "queue/journal/key_table.h"
#include "queue/journal/numbers.h"

struct record;

struct jobs {
	struct job **by_id; /* ascending */
	size_t count, capacity;
	size_t counts[JOB_STATES];
	uint64_t bad_lines;
	uint64_t first_bad_line; /* its number, from 1 */
	uint64_t orphaned_lines; /* lines about jobs that are missing */
	uint64_t last_id;
	uint64_t num_after; /* dependencies of all jobs together */
	int version;
	char queue[33];             /* from the first line; "": not read */
	uint64_t generation;        /* the same; 0: not read */
	uint64_t first_id;          /* ids below it may have been pruned */
	struct number_set losses;   /* lines lost in a power cut before they were synced */
	struct number_set holes;    /* records that are missing, see damage.h */
	bool paused;                /* no job is started until the queue is resumed */
	struct job_delay *pauses;   /* pauses of the queue, the newest; NULL: none */
	bool outdated;              /* the file is older than its counters, because it was restored */
	uint64_t judged_missing;    /* private to damage.c */
	uint64_t next_id;           /* ids below it are taken; 0: not known */
	bool damaged;               /* there are holes: jobs may be unknown or missing */
	struct number_set lost_ids; /* ids of jobs whose `add` was lost; a repair records them */
	bool lines_lost;            /* records of added lines of commands files may be lost */
	struct arena arena;
	struct intern strings;
	const int *one_gpu[10]; /* the GPUs of an attempt that has one: private to jobs_make.c */
	struct job_wish **wishes;
	size_t num_wishes, wishes_capacity;
	struct key_table keepers; /* the newest keeper of each name */
	struct seen_lines *seen;
	struct due_hook *hooks, *last_hook; /* a list, the oldest first */
	struct key_table hook_heads;        /* private to jobs_hooks.c */
	uint64_t epoch;                     /* of the last coordinator on a cluster; 0: there was none */
	const char *epoch_host;             /* host of that coordinator; interned, or NULL */
	int64_t max_lease_ms;               /* the longest lease that a coordinator has granted to a pilot */
	struct queue_pilot *pilots;         /* a list, the newest first */
	struct key_table pilot_names;       /* the same by name */
	/* Called after every change of a job; may be NULL. old_state: -1 for a new job. */
	void (*on_change)(void *context, struct job *job, int old_state);
	/* Called when a hook of a job has failed; may be NULL. */
	void (*on_hook_failed)(void *context, const struct job *job, const struct record *outcome);
	void *context;
};

/* Lines of a commands file whose jobs were pruned: they are not new when the file is added again. */
struct seen_lines {
	struct seen_lines *next;
	const char *file;   /* interned */
	const char *hashes; /* 32 hexadecimal digits each, without separators */
	size_t count;
};

/* Which attempt a hook is for, and the kind of hook. Has no padding, because it is compared as bytes. */
struct due_hook_key {
	uint64_t id;
	uint32_t attempt;
	uint32_t idle;
};

/*
 * A hook that has not run yet, for one end of a job: from that end until a `hook` line records that it has run. The
 * same for an `idle`, until another `idle` line. While its keeper is alive, that keeper runs it.
 */
struct due_hook {
	struct due_hook *next, *previous;
	struct due_hook *next_same, *last_same; /* private to jobs_hooks.c */
	struct due_hook_key key;                /* the same */
	uint64_t id;
	uint32_t attempt;      /* 0: the job ended without an attempt */
	uint32_t num_attempts; /* of the job at that time */
	unsigned tries;        /* tries recorded so far */
	unsigned char state;   /* state of the job after that end, enum job_state; failed if it will be retried */
	bool idle;             /* the hook of an `idle`: a GPU of the running attempt is idle */
	bool found;            /* private to the runner */
	const char *reason;    /* why the job ended without an attempt; interned, or NULL */
	const char *command;   /* interned */
	const struct keeper_info *keeper; /* NULL: not assigned to a keeper yet */
};

/*
 * A pilot on a node of a cluster, as recorded by its coordinators. A pilot that is not `gone` may be alive, and
 * attempts on it may run.
 */
struct queue_pilot {
	struct queue_pilot *next;
	struct keeper_info keeper; /* keeper of attempts on it: its name and its node, "" if unknown */
	uint64_t slurm_job;
	int64_t started_ms; /* by the clock of the node; 0: not known */
	int64_t lease_ms;   /* the longest lease that it was granted */
	int64_t until_ms;   /* 0: no end, or not known */
	bool gone;
	bool needed; /* private to prune.c */
};

void jobs_init(struct jobs *js);
void jobs_finish(struct jobs *js);
/* As jobs_init(), but keeps the callbacks and context. */
void jobs_reset(struct jobs *js);

/*
 * A journal_line_fn: context is the struct jobs. Lines have no seal. 0, -ENOMEM, or -ENOTSUP if a newer gpuq wrote the
 * journal.
 */
int jobs_apply(void *jobs, uint64_t line_no, const char *line, size_t size);

/* A record of this job was lost: it becomes `unknown` unless it has ended. */
void jobs_lose(struct jobs *js, struct job *job);

/* The message that explains why jobs_find() does not find a job: there is none, or its `add` was lost. */
const char *jobs_absence(const struct jobs *js, uint64_t id);
/* NULL if there is no such job. */
struct job *jobs_find(const struct jobs *js, uint64_t id);
/* The job's index in by_id; js->count if there is no such job. */
size_t jobs_index(const struct jobs *js, uint64_t id);
/* NULL if there is none. */
struct queue_pilot *jobs_pilot(const struct jobs *js, const char *name, size_t size);
/* The newest keeper of this name; NULL if there is none. */
const struct keeper_info *jobs_keeper(const struct jobs *js, const char *name, size_t size);

#endif
