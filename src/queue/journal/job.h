/* SPDX-License-Identifier: MIT */
/*
 * A job and what happens to it.
 *
 *                 ┌── hold ──▶ held ── release ──▶ pending
 *                 │
 *     add ──▶ pending ───────── start ──────▶ running ── end ──▶ completed | failed | cancelled
 *                 │ ▲                            │
 *                 │ └──── end, and a try left ───┘     retry: from any of the last three to pending
 *                 └── cancel ──▶ cancelled
 *                 └── fail ────▶ failed (without an attempt: a job it waited for failed, or it could not be started)
 *
 * An attempt that was *interrupted*, because its allocation, container or pilot ended or because the job asked to be
 * run again, makes the job pending again and does not count against its retries. An unfinished job that lost a record
 * is *unknown* (damage.h): it may have run. It is started only on request: `retry` makes it pending.
 *
 * Each arrow is one line of the journal. An attempt is *started* when `start` is in the journal: written by its first
 * process, or on a cluster by the coordinator. Before that, nothing of it has run; after that, it is never started
 * again without a retry. It has *ended* when `end` is in the journal: written by its keeper, or by a runner that found,
 * under the append lock and with all lines read, that no process holds the keeper's lock, so that no other end can
 * follow.
 *
 * A *lease* is a job of `gpuq exec`: its keeper is set from the beginning, and no other process may start it. If that
 * keeper is gone before the start, the lease is cancelled. A lease runs at most once.
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
	JOB_UNKNOWN, /* a record of it was lost: it may have run, and is started only on request */
};
#define JOB_STATES 7

/* Ids are below this: `counts` has a byte for each. */
#define JOB_MAX_ID ((uint64_t)1000000000)

/* The `file` of jobs of the original gpu_dispatch, which did not record it: they match lines of every commands file. */
#define JOB_ANY_FILE ""

/* Reasons that other code compares with. */
#define REASON_GPU_MEMORY  "GPU out of memory"
#define REASON_END_UNKNOWN "end unknown"
#define REASON_KEEPER_LOST "keeper lost"
#define REASON_RESTARTED   "machine restarted"
#define REASON_GPU_LOST    "GPU lost"
#define REASON_TIMEOUT     "timeout"
#define REASON_CANCELLED   "cancelled"
#define REASON_INTERRUPTED "interrupted"
#define REASON_STUCK       "cannot be killed"
#define REASON_NOT_SYNCED  "not accepted: it could not be synced"
#define REASON_CHECKPOINT  "checkpointed"
#define REASON_LOST_RECORD "a record of this job was lost"
#define REASON_LEASE_LEFT  "'gpuq exec' ended before the job started"
#define REASON_LEASE_ENDED "'gpuq exec' was killed"

/* The reason why a GPU takes no jobs: this job on it cannot be killed. */
#define JOB_STUCK_ROOM 48
void job_stuck_words(uint64_t id, char words[JOB_STUCK_ROOM]);

/* Letters, digits and _.:/@+=- */
bool job_tag_is_valid(const char *tag, size_t size);

/* "g12": the name of the group of jobs whose first job is 12. Returns `name`. */
#define JOB_GROUP_ROOM 24
const char *job_group_name(uint64_t group, char name[JOB_GROUP_ROOM]);

/* The priority set by `urgent`. */
#define JOB_URGENT 1000000000

/* "pending", … */
const char *job_state_name(enum job_state state);
int job_state_parse(const char *name, size_t size, enum job_state *ret);

/* Identifies the directory of a path when the job was added; ino 0: not known. */
struct directory_id {
	uint64_t dev, ino;
};

/* A job as requested and recorded. -1 in a number means the runner's default. */
struct job_spec {
	const char *command;
	size_t command_size;
	const char *name; /* this and the following strings may be NULL */
	const char *cwd;
	bool cwd_own;               /* only the user and root can write cwd; checked again when the job starts */
	struct directory_id cwd_id; /* of cwd, also without cwd_own; checked when the job starts */
	const char *env;            /* name in the environment store */
	const char *file;           /* the commands file it came from */
	const char *log_dir;
	const char *on_finish;
	const char *on_idle;
	const uint64_t *after; /* must be completed first */
	size_t num_after;
	const uint64_t *after_any; /* must have ended first */
	size_t num_after_any;
	const char *tree;        /* the git worktree that was created for the job */
	const char *commit;      /* the commit checked out there */
	const char *script;      /* name of its script in the queue's folder */
	const char *script_name; /* the user's name for the script, UTF-8 */
	const char *tags;        /* "a,b", see job_tag_is_valid() */
	int warn_signal;         /* signal sent warn_before_ms before the time limit; 0: none */
	int64_t warn_before_ms;  /* the same */
	int64_t idle_warn_ms;    /* warn if a GPU is idle for this long; 0: the runner's default; -1: never */
	int requeue_on;          /* exit code that requeues the job; 0: none */
	int64_t begin_ms;        /* earliest start, in milliseconds since 1970; 0: at any time */
	int num_gpus;
	int64_t mem_mb;
	int64_t min_free_mem_mb; /* overrides the runner's value, for a job without mem_mb */
	const char *gpu;         /* the GPUs it is pinned to, see queue/schedule/gpu_pin.h; or NULL */
	int64_t host_mem_mb;     /* main memory it needs; 0: not declared */
	int cpus;                /* CPUs it needs; 0: not declared */
	int64_t timeout_ms;
	int retries;
	int priority;
	bool exclusive; /* no other job on its GPUs, even if its memory is declared */
	bool held;
	uint64_t group;      /* the id of the first job of its sweep; 0: none */
	bool in_array;       /* array_index is valid */
	int32_t array_index; /* GPUQ_ARRAY_INDEX */
	const char *keeper;  /* keeper of a lease, see struct job; or NULL */
};

#define KEEPER_PROCESS "gpuq-keeper" /* the name of a keeper in /proc */

/* Identifies a keeper, or a pilot on a node of a cluster. Only a coordinator knows whether a pilot is alive. */
struct keeper_info {
	const char *name;
	bool is_pilot; /* machine.host is the name of its node, even on this machine; it has no lock */
	pid_t pid;
	struct machine machine;
	const char *allocation; /* interned; NULL: none, see queue/keeper/allocation.h */
};

/* The less common options, shared by all jobs with equal values. */
struct job_wish {
	const char *cwd, *env, *file, *log_dir, *on_finish, *on_idle, *gpu, *tags, *script, *script_name, *tree,
		*commit;  /* interned, or NULL */
	int64_t begin_ms; /* 0: at any time */
	int64_t mem_mb, min_free_mem_mb, timeout_ms, host_mem_mb;
	int64_t warn_before_ms;
	int64_t idle_warn_ms;                                 /* see struct job_spec */
	int num_gpus, retries, cpus, warn_signal, requeue_on; /* see struct job_spec */
	bool exclusive;
	struct directory_id cwd_id; /* see struct job_spec */
	bool cwd_own;               /* the same */
	bool has_retries;           /* otherwise `retries` is the default of its last attempt's runner */
	bool has_on_finish;         /* the same for on_finish */
};

/* Position of a job among those that wait for a GPU, kept by queue/schedule/pending.h: 24 bytes, and 8 more in its
 * heap. */
struct pending_job {
	uint64_t order;
	int32_t priority;
	uint32_t class_number; /* from here on private to pending.c */
	uint32_t position;     /* in the heap, from 1; 0: not waiting */
};

/* Idle GPUs of an attempt for which a warning was due, as of one moment. */
struct attempt_idle {
	int64_t at_ms;    /* the moment */
	int64_t since_ms; /* the first of the GPUs has been idle since then; 0: none is */
	int64_t idle_ms;  /* total idle time of its GPUs up to the moment */
	size_t num_gpus;  /* number of idle GPUs */
	const int *gpus;
};

/* One earlier attempt, newest first. */
struct job_attempt {
	struct job_attempt *earlier;
	int64_t start_ms, end_ms, duration_ms, peak_mem_mb;
	int64_t energy_j; /* used by its GPUs, if no other job used them; -1: not known */
	const char *log, *reason;
	const struct attempt_idle *idle; /* NULL: no warning was due */
	const int *gpus;
	uint32_t attempt;
	pid_t pid;
	short exit_code;
	unsigned char signal;
	unsigned char num_gpus;
	unsigned char state;
	bool interrupted; /* state is JOB_CANCELLED, but no user cancelled it */
};

/* A period in which the job neither ran nor waited for a GPU, newest first. */
struct job_delay {
	const struct job_delay *earlier;
	int64_t from_ms;
	int64_t to_ms; /* 0: it has not ended */
	bool held;     /* otherwise the job had ended, until a `retry` */
};

struct job {
	uint64_t id;
	const char *command;
	const struct job_wish *wish;
	const char *name;
	/* Jobs that it waits for: after[0] is their number, the ids follow; NULL: none. The last num_after_any need not
	 * have completed, only ended. */
	const uint64_t *after;
	int64_t submit_ms;
	struct job_attempt *attempts;     /* the newest; NULL: none yet */
	struct job_delay *delays;         /* the newest; NULL: none */
	const struct keeper_info *keeper; /* of the last attempt; for a lease, set from the beginning */
	const char *reason;               /* why it failed without an attempt; interned */
	int64_t need_mb;                  /* learned from an attempt that ran out of GPU memory; 0: nothing learned */
	uint32_t command_size;
	uint32_t num_attempts;
	uint32_t spared; /* attempts that do not count against retries: interrupted, or before a `retry` */
	int priority;
	uint32_t num_after_any;
	uint32_t group;        /* the id of the first job of its sweep, shown as g12; 0: none */
	int32_t array_index;   /* -1: none */
	unsigned char state;   /* enum job_state */
	bool cancel_requested; /* while running */
	bool paused;           /* while running: its processes are stopped */
	bool legacy;
	bool stuck;              /* while running: it was killed and does not die */
	unsigned char hooks_due; /* number of its ends whose hook has not run yet, at most 255 */
	unsigned char records;   /* number of its lines in the journal, modulo 256: see tally.h */
	bool lease;              /* only `keeper` may start it, once */

	/*
	 * Private to the runner: positions in its lists. Not from the journal; zero in every other process, except that
	 * `gpuq why` uses `wait`. The flags are first because they fit between the flags above and the pointers below:
	 * there may be a million jobs in memory.
	 */
	bool late;                   /* it does not fit into the remaining time of the runner's allocation */
	bool blocked;                /* linked under a job that it waits for */
	bool sleeping;               /* its begin time has not come */
	struct pending_job wait;     /* position among the jobs that wait for a GPU */
	struct running *running;     /* set when it is handed to a keeper */
	struct job *dependents;      /* the jobs that wait for this one… */
	struct job *next_dependent;  /* …are linked by this… */
	struct job **dependent_link; /* …and this is the pointer to this job, while it is blocked */
};

bool job_is_final(const struct job *j);
/* Whether this process could find the keeper by its lock and reach it if it is alive. k may be NULL. */
bool keeper_is_here(const struct keeper_info *k, const struct machine *here);
bool job_has_tag(const struct job *j, const char *tag, size_t size);
/* The reason of the job if it never ran, otherwise the reason of its last attempt; NULL: none. */
const char *job_reason(const struct job *j);
/* Total idle time of its GPUs, up to now or to its end. 0: no warning was due. */
int64_t job_attempt_idle_ms(const struct job_attempt *a, int64_t now_ms);
/* Whether a GPU of the attempt is idle now. */
bool job_attempt_is_idle(const struct job_attempt *a);
/* The number of the job's next attempt. Numbers are not reused. */
uint32_t job_next_attempt(const struct job *j);
/* Whether the job becomes pending again if its current attempt fails. */
bool job_has_try_left(const struct job *j);

#endif
