/* SPDX-License-Identifier: MIT */
/*
 * All jobs of a journal: a fold over its lines.
 *
 * Jobs, attempts and keepers live in the fold's own memory until jobs_finish() or
 * jobs_reset(); strings that many jobs have in common are kept once, so equal strings
 * of a job_wish have equal addresses. Lines that make no sense are counted and ignored.
 */
#ifndef QUEUE_JOURNAL_JOBS_H
#define QUEUE_JOURNAL_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "queue/journal/job.h"
#include "queue/journal/numbers.h"

struct record;

struct jobs {
	struct job **by_id; /* ascending */
	size_t count, capacity;
	size_t counts[JOB_STATES];
	uint64_t bad_lines;
	uint64_t first_bad_line; /* its number, from 1 */
	uint64_t orphaned_lines; /* about jobs that are not there */
	uint64_t last_id;
	int version;
	char queue[33];             /* of the first line; "": not read */
	uint64_t generation;        /* the same; 0 */
	uint64_t first_id;          /* ids below it may have been pruned */
	struct number_set losses;   /* lines that a power cut took before they were synced */
	struct number_set holes;    /* records that are missing, see damage.h */
	bool paused;                /* nothing is started until it is resumed */
	struct job_delay *pauses;   /* of the queue, the newest; NULL: none */
	bool outdated;              /* the file is older than its counters: it was restored */
	uint64_t judged_missing;    /* private to damage.c */
	uint64_t next_id;           /* ids below it were given to jobs; 0: not known */
	bool damaged;               /* there are holes: jobs may be unknown, and others may be missing altogether */
	struct number_set lost_ids; /* of jobs whose `add` was lost; a repair writes them down */
	bool lines_lost;            /* lines of commands files may have been added before without a trace of it here */
	struct arena arena;
	struct intern strings;
	const int *one_gpu[10]; /* the GPUs of an attempt that has one: private to jobs_make.c */
	struct job_wish **wishes;
	size_t num_wishes, wishes_capacity;
	const struct keeper_info **keepers;
	size_t num_keepers, keepers_capacity;
	struct seen_lines *seen;
	struct due_hook *hooks, *last_hook; /* a list, the oldest first */
	uint64_t epoch;                     /* of the last coordinator on a cluster; 0: there was none */
	const char *epoch_host;             /* where it runs or ran; interned, or NULL */
	int64_t max_lease_ms;               /* the largest that a coordinator has granted to a pilot */
	struct queue_pilot *pilots;         /* a list, the newest first */
	/* Called after every change of a job; may be NULL. old_state: -1 for a new one. */
	void (*on_change)(void *context, struct job *job, int old_state);
	/* Called when a hook of a job has failed; may be NULL. */
	void (*on_hook_failed)(void *context, const struct job *job, const struct record *outcome);
	void *context;
};

/* Lines of a commands file whose jobs prune has taken out: they are not new when the file is added again. */
struct seen_lines {
	struct seen_lines *next;
	const char *file;   /* interned */
	const char *hashes; /* 32 hexadecimal digits each, without separators */
	size_t count;
};

/*
 * A hook that is still to be run, for one end of a job: from that end until a line `hook` says that it has been run.
 * The same for an `idle`, until another line `idle` says so.
 * It is in the hands of its keeper as long as that keeper lives.
 */
struct due_hook {
	struct due_hook *next;
	uint64_t id;
	uint32_t attempt;      /* 0: the job ended without one */
	uint32_t num_attempts; /* of the job at that time */
	unsigned tries;        /* recorded so far */
	unsigned char state;   /* of the job after that end, enum job_state; failed if it will be tried again */
	bool idle;             /* not for an end: a GPU of the running attempt is idle */
	bool found;            /* the runner's own */
	const char *reason;    /* why the job ended without an attempt; interned, or NULL */
	const char *command;   /* interned */
	const struct keeper_info *keeper; /* NULL: none has it yet */
};

/*
 * A pilot on a node of a cluster, as its coordinators recorded it. The end of a pilot that is not gone is not
 * known: attempts on it may run.
 */
struct queue_pilot {
	struct queue_pilot *next;
	struct keeper_info keeper; /* of attempts on it: its name and its node, "" if that is not known */
	uint64_t slurm_job;
	int64_t started_ms; /* by the clock of the node; 0: not known */
	int64_t lease_ms;   /* the largest that it was granted */
	int64_t until_ms;   /* 0: it has no end, or it is not known */
	bool gone;
	bool needed; /* prune's own */
};

void jobs_init(struct jobs *js);
void jobs_finish(struct jobs *js);
/* As after jobs_init(), keeping on_change and context. */
void jobs_reset(struct jobs *js);

/*
 * A journal_line_fn: context is the struct jobs. Lines have no seal. 0, -ENOMEM, or -ENOTSUP where a newer gpuq wrote
 * the journal.
 */
int jobs_apply(void *jobs, uint64_t line_no, const char *line, size_t size);

/* A record of this job was lost: it becomes `unknown`, unless it is over. */
void jobs_lose(struct jobs *js, struct job *job);

/* Why jobs_find() does not find a job, in words: there is none, or its `add` was lost. */
const char *jobs_absence(const struct jobs *js, uint64_t id);
/* NULL: there is no such job. */
struct job *jobs_find(const struct jobs *js, uint64_t id);
/* Its index in by_id; js->count: there is no such job. */
size_t jobs_index(const struct jobs *js, uint64_t id);
/* NULL: there is none. */
struct queue_pilot *jobs_pilot(const struct jobs *js, const char *name, size_t size);
/* The newest keeper of this name; NULL: there is none. */
const struct keeper_info *jobs_keeper(const struct jobs *js, const char *name, size_t size);

#endif
