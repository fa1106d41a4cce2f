/* SPDX-License-Identifier: MIT */
/*
 * The lines of a journal: how each event is written and read. docs/journal.md is the user documentation.
 *
 * Unknown members and unknown events are ignored, so that a newer gpuq may add both. A line that is not a valid object
 * is "bad": it is reported and skipped.
 */
#ifndef QUEUE_JOURNAL_RECORD_H
#define QUEUE_JOURNAL_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/json_read.h"
#include "base/text.h"
#include "queue/journal/job.h"

#define RECORD_VERSION 2

enum event {
	EVENT_UNKNOWN = 0, /* from a newer version: ignored unless it has "must":true */
	EVENT_JOURNAL,     /* the first line: the version */
	EVENT_ADD,         /* a job was accepted */
	EVENT_KEEPER,      /* a keeper began: its machine and PID */
	EVENT_START,       /* an attempt began; written by its first process, or on a cluster by the coordinator */
	EVENT_END,         /* an attempt ended; written by its keeper, or by the runner that found the keeper lost */
	EVENT_FAIL,        /* a job failed without an attempt, for example because a job it waited for failed */
	EVENT_CANCEL,
	EVENT_HOLD,
	EVENT_RELEASE,
	EVENT_URGENT,
	EVENT_RETRY,
	EVENT_STUCK,       /* an attempt that was killed does not die */
	EVENT_IDLE,        /* GPUs of a running attempt became idle or busy; also the hook for that */
	EVENT_HOOK,        /* the hook of an end is due, is being run, or has been run */
	EVENT_SEEN,        /* lines of a commands file whose jobs were pruned or edited */
	EVENT_UNKNOWN_JOB, /* `unknown`: a record of the job was lost, see damage.h */
	EVENT_LOSS,        /* numbers that were lost in a power cut before they were synced */
	EVENT_LOST,        /* records of jobs or of seen lines are permanently lost, see repair.h */
	EVENT_INTERRUPTED, /* an attempt ended because its machine or allocation ended: it does not count */
	EVENT_VOID,        /* an attempt was never begun */
	EVENT_EDIT,        /* the options of a job that has not started have changed */
	EVENT_PAUSE,       /* with an id: a running job was paused or resumed; without: the queue was */
	EVENT_GRANT,       /* a lease was given GPUs; does not change its state */
	EVENT_COORDINATOR, /* a coordinator on a cluster took over the queue */
	EVENT_PILOT,       /* a pilot on a node of a cluster has connected to its coordinator, or is gone */
	EVENT_LEGACY,      /* a line of the original gpu_dispatch, an object per job */
};

/* A parsed line: slices of it, not yet unescaped. A missing member has type 0. */
struct record {
	enum event event;
	uint64_t id;
	uint32_t attempt; /* 1 if the line has none */
	int64_t time_ms;
	int version;
	int64_t pid;
	int64_t next_id;    /* of `journal` */
	int64_t generation; /* the same */
	int64_t from, to;   /* of `loss` and `lost` */
	int64_t records;    /* number of records of the job including this one, modulo 256; -1: as many as were read */
	int64_t num_gpus;   /* -1: not given */
	int64_t mem_mb;     /* -1 */
	int64_t min_free_mem_mb; /* -1 */
	int64_t timeout_ms;      /* -1 */
	int64_t host_mem_mb;     /* 0: not declared */
	int64_t cwd_dev;         /* used with cwd_ino, which is 0 if unknown */
	int64_t cwd_ino;
	int64_t cpus;    /* 0: not declared */
	int64_t retries; /* -1 */
	int64_t priority;
	int64_t exit_code; /* -1: none */
	int64_t signal;    /* 0: none; in `add`, the signal sent before the time limit */
	int64_t duration_ms;
	int64_t peak_mem_mb;  /* -1 */
	int64_t energy_j;     /* -1 */
	int64_t idle_ms;      /* of `idle` */
	int64_t since_ms;     /* of `idle`; 0: none */
	int64_t idle_warn_ms; /* -1: not given */
	int64_t try_number;   /* of `hook`; 0: none */
	int64_t group;        /* 0: none */
	int64_t array_index;  /* -1: none */
	int64_t begin_ms;     /* 0: at any time */
	int64_t signal_before_ms;
	int64_t requeue_on; /* 0: none */
	int64_t epoch;      /* of the coordinator that wrote the line; 0: not written by a coordinator */
	int64_t slurm_job;
	int64_t lease_ms;   /* of `coordinator` and `pilot` */
	int64_t started_ms; /* of `pilot`; 0: not known */
	int64_t until_ms;   /* of `pilot`; 0: it has no end */
	bool hook;          /* of `end`: its hook is due */
	bool held;
	bool paused; /* of `pause` */
	bool cwd_own;
	bool must;           /* a reader that does not know the event or one of its members must refuse the journal */
	bool unknown_member; /* the line has a member that this version does not know */
	bool exclusive;
	/* Slices of the line, together so that they can be cleared quickly. */
	union {
		struct {
			struct json_value command, command_b64, name, name_b64, cwd, cwd_b64, env, log, log_b64,
				log_dir, log_dir_b64;
			struct json_value file, file_b64, on_finish, on_finish_b64, on_idle, on_idle_b64, reason,
				status, keeper, host, boot, pidns, by, queue;
			struct json_value gpus, gpu, after, after_any, tags, script, script_name, tree, tree_b64,
				commit, lines, start_time, allocation, pilot, node;
		};
		struct json_value values[40];
	};
};

/* "cancel" and so on, as in the journal. */
const char *record_event_name(enum event event);

/* 0, or -EBADMSG for a bad line. */
int record_parse(const char *line, size_t size, struct record *ret);

/* What record_write_start() writes. */
struct attempt_start {
	uint64_t id;
	uint32_t attempt;
	int64_t time_ms; /* 0: now; -1: not known */
	pid_t pid;
	const char *keeper; /* "" for none */
	const char *pilot;  /* NULL: not on a pilot */
	uint64_t epoch;     /* of the coordinator that starts it on a pilot */
	const char *log;
	const int *gpus;
	size_t num_gpus;
	int retries;           /* the runner's default, for a job that does not set them */
	const char *on_finish; /* the same; or NULL */
};

/* What record_write_end() writes. */
struct attempt_end {
	uint64_t id;
	uint32_t attempt;
	int64_t time_ms;      /* 0: now; -1: not known */
	enum job_state state; /* completed, failed or cancelled */
	int exit_code;        /* -1: none */
	int signal;           /* 0: none */
	const char *reason;   /* or NULL */
	int64_t duration_ms;  /* -1: not known */
	int64_t peak_mem_mb;  /* -1 */
	int64_t energy_j;     /* used by its GPUs, if no other job used them; -1 or 0: not known */
	bool by_runner;       /* written by the runner because the keeper was gone */
	bool interrupted;     /* write `interrupted`, which has no status: the attempt does not count */
	bool hook_due;
	const char *on_finish; /* the hook, if neither the job nor its start has one; or NULL */
};

/* What record_write_hook() writes. */
struct hook_record {
	uint64_t id;
	bool idle;             /* the hook of an `idle`, not of an end; written as `idle` */
	uint32_t attempt;      /* 0: the job ended without an attempt */
	unsigned try_number;   /* from 1; 0: no try yet, the hook is due */
	const char *keeper;    /* keeper that runs the hook; or NULL */
	const char *on_finish; /* the command, if it is not known from other lines; or NULL */
	enum job_state state;  /* completed or failed for a try that has ended; otherwise JOB_PENDING */
	int exit_code;         /* -1: none */
	int signal;            /* 0: none */
	const char *reason;    /* or NULL */
};

/* What record_write_idle() writes. */
struct idle_record {
	uint64_t id;
	uint32_t attempt;
	int64_t time_ms; /* 0: now */
	const int *gpus; /* the idle GPUs */
	size_t num_gpus;
	int64_t since_ms; /* 0: none is idle */
	int64_t idle_ms;
	bool hook_due;
	const char *on_finish; /* the hook to run; NULL: none */
};

/* What record_write_pilot() writes. */
struct pilot_record {
	const char *name;
	uint64_t epoch;
	bool gone; /* the fields below are not written */
	const char *node;
	uint64_t slurm_job;
	int64_t started_ms; /* by the clock of the node; 0: not known */
	int64_t lease_ms;   /* the longest lease that it was granted */
	int64_t until_ms;   /* 0: it has no end */
};

/* Each appends one line with its newline. */
/* next_id: no job that is added later has a lower id. */
void record_write_journal(struct text *t, const char *queue, uint64_t generation, uint64_t next_id);
/* Lines with these numbers were lost before they were synced. */
void record_write_loss(struct text *t, uint64_t from, uint64_t to);
/* The `add` of the jobs with these ids was lost; 0: not known whether any was lost. */
void record_write_lost(struct text *t, uint64_t from, uint64_t to);
void record_write_add(struct text *t, uint64_t id, int64_t time_ms, const struct job_spec *spec);
/* allocation: "" for none */
void record_write_keeper(
	struct text *t, const char *keeper, pid_t pid, const struct machine *m, const char *allocation);
void record_write_start(struct text *t, const struct attempt_start *s);
void record_write_end(struct text *t, const struct attempt_end *e);
/* The GPUs of a lease, before its keeper may start it: id, attempt, time_ms, keeper with its pid, gpus. */
void record_write_grant(struct text *t, const struct attempt_start *s);
/* lease_ms: the longest lease that any coordinator of this queue grants or has granted. */
void record_write_coordinator(struct text *t, uint64_t epoch, const struct machine *m, pid_t pid, int64_t lease_ms);
void record_write_pilot(struct text *t, const struct pilot_record *p);
/* The attempt was never begun. */
void record_write_void(struct text *t, uint64_t id, uint32_t attempt, uint64_t epoch);
void record_write_stuck(struct text *t, uint64_t id, uint32_t attempt);
/* on_finish: the hook of a job that has none of its own; or NULL */
void record_write_fail(struct text *t, uint64_t id, const char *reason, const char *on_finish);
void record_write_idle(struct text *t, const struct idle_record *i);
void record_write_hook(struct text *t, const struct hook_record *h);
/* The job's options have changed to these; its state stays. */
void record_write_edit(struct text *t, uint64_t id, const struct job_spec *spec);
/* The spec from which record_write_add() writes the same job. Borrows the job's strings. */
void record_spec_of(const struct job *job, struct job_spec *ret);
/* The job as lines: its `add`, and `start` and `end` of each attempt. */
void record_write_job(struct text *t, const struct job *job);
/* Writes a `seen` line up to the hashes of its lines; the caller appends those and ends the line with "}\n". */
void record_begin_seen(struct text *t, const char *file);
/* cancel, hold, release, urgent, retry, unknown. reason may be NULL. */
void record_write_control(struct text *t, enum event event, uint64_t id, const char *reason);
/* id 0: the whole queue. */
void record_write_pause(struct text *t, uint64_t id, bool paused);
/* A control for a job that is `unknown`; records: number of its records including this one, modulo 256. */
void record_write_resolution(struct text *t, enum event event, uint64_t id, unsigned records);

#endif
