/* SPDX-License-Identifier: MIT */
/*
 * A job and what happens to it.
 *
 *                 ┌── hold ──▶ held ── release ──┐
 *                 │                              ▼
 *     add ──▶ pending ───────── start ──────▶ running ── end ──▶ completed | failed | cancelled
 *                 │ ▲                            │
 *                 │ └──── end, and a try left ───┘     retry: from any of the last three to pending
 *                 └── cancel ──▶ cancelled
 *                 └── fail ────▶ failed (what it waited for did)
 *
 * Each arrow is one line of the journal. An attempt is *started* when its keeper
 * has appended `start`; before that nothing of it has run, after that it is never started again
 * without a retry. It has *ended* when `end` stands there: by its keeper, or by a
 * runner that found, under the append lock and with all lines read, that the
 * keeper's lock is held by nobody, so that no other end can come.
 */
#ifndef QUEUE_JOURNAL_JOB_H
#define QUEUE_JOURNAL_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/machine.h"

enum job_state {
	JOB_PENDING = 0,
	JOB_HELD,
	JOB_RUNNING,
	JOB_COMPLETED,
	JOB_FAILED,
	JOB_CANCELLED,
};
#define JOB_STATES 6

/* Reasons that others look for. */
#define REASON_GPU_MEMORY  "GPU out of memory"
#define REASON_END_UNKNOWN "end unknown"
#define REASON_KEEPER_LOST "keeper lost"
#define REASON_RESTARTED   "machine restarted"
#define REASON_GPU_LOST    "GPU lost"
#define REASON_TIMEOUT     "timeout"
#define REASON_CANCELLED   "cancelled"
#define REASON_STUCK       "cannot be killed"
#define REASON_NOT_SYNCED  "not accepted: it could not be synced"

/* Why a GPU takes no job, where one on it cannot be killed. */
#define JOB_STUCK_ROOM 48
void job_stuck_words(uint64_t id, char words[JOB_STUCK_ROOM]);

/* The priority that `urgent` gives. */
#define JOB_URGENT 1000000000

/* "pending", … */
const char *job_state_name(enum job_state state);
int job_state_parse(const char *name, size_t size, enum job_state *ret);

/* What somebody asks for; as it is written down. Numbers: -1 leaves it to the runner. */
struct job_spec {
	const char *command;
	size_t command_size;
	const char *name; /* or NULL, as all of these */
	const char *cwd;
	bool cwd_own;     /* only the user and root can write it, and this must still be so when the job starts */
	const char *env;  /* of the environment store */
	const char *file; /* the commands file it came from */
	const char *log_dir;
	const char *on_finish;
	const uint64_t *after;
	size_t num_after;
	int num_gpus;
	int64_t mem_mb;
	int64_t min_free_mem_mb; /* in place of the runner's, for a job that has no mem_mb */
	int64_t timeout_ms;
	int retries;
	int priority;
	bool held;
};

/* Where a keeper lives. */
struct keeper_info {
	const char *name;
	pid_t pid;
	struct machine machine;
};

/* The rarer wishes, kept once for all jobs that have the same. */
struct job_wish {
	const char *cwd, *env, *file, *log_dir, *on_finish; /* interned, or NULL */
	int64_t mem_mb, min_free_mem_mb, timeout_ms;
	int num_gpus, retries;
	bool cwd_own;     /* see struct job_spec */
	bool has_retries; /* else they are those of the runner of its last attempt */
};

/* A job's place among those that wait for a GPU, kept by queue/schedule/pending.h: 24 bytes, and 8 more in its heap. */
struct pending_job {
	uint64_t order;
	int32_t priority;
	uint32_t class_number; /* from here on private to pending.c */
	uint32_t position;     /* in the heap, from 1; 0: not waiting */
};

/* One earlier attempt, newest first. */
struct job_attempt {
	struct job_attempt *earlier;
	int64_t start_ms, end_ms, duration_ms, peak_mem_mb;
	const char *log, *reason;
	const int *gpus;
	uint32_t attempt;
	pid_t pid;
	short exit_code;
	unsigned char signal;
	unsigned char num_gpus;
	unsigned char state;
};

struct job {
	uint64_t id;
	const char *command;
	const struct job_wish *wish;
	const char *name;
	const uint64_t *after; /* after[0]: how many; or NULL */
	int64_t submit_ms;
	struct job_attempt *attempts; /* the newest; NULL: none yet */
	const struct keeper_info *keeper;
	const char *reason; /* why it failed without an attempt; interned */
	int64_t need_mb;    /* learned from an attempt that ran out of GPU memory; 0: nothing learned */
	uint32_t command_size;
	uint32_t num_attempts;
	uint32_t spared; /* attempts that do not count against retries: before a `retry` */
	int priority;
	unsigned char state;   /* enum job_state */
	bool cancel_requested; /* while it runs */
	bool legacy;
	bool stuck;    /* while it runs: it was killed and does not die */
	bool hook_due; /* its end was not written by a keeper, and nobody has run its hook yet */

	/*
	 * The runner's own: its place in the runner's lists. Not from the journal; zero in every other process, except
	 * that `gpuq why` uses `wait`. `blocked` is first because it fits between the flags above and the pointers
	 * below: there may be a million jobs in memory.
	 */
	bool blocked;                /* linked under a job that it waits for */
	struct pending_job wait;     /* its place among those that wait for a GPU */
	struct running *running;     /* since it was handed to a keeper */
	struct job *dependents;      /* the jobs that wait for this one… */
	struct job *next_dependent;  /* …are linked by this… */
	struct job **dependent_link; /* …and this is the pointer to this job, while it is blocked */
};

bool job_is_final(const struct job *j);
/* The reason of the job if it never ran, otherwise the reason of its last attempt; NULL: none. */
const char *job_reason(const struct job *j);
/* Whether it is pending again after a failure of the attempt it is at. */
bool job_has_try_left(const struct job *j);

#endif
