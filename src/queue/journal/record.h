/* SPDX-License-Identifier: MIT */
/*
 * The lines of a journal: how each event is written and read. docs/journal.md
 * describes them for people.
 *
 * An unknown member is ignored and an unknown event too, so that a newer gpuq may
 * add both; a line that is not such an object is "bad", reported and skipped.
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

#define RECORD_VERSION 1

enum event {
	EVENT_UNKNOWN = 0, /* of a newer version: ignored */
	EVENT_JOURNAL,     /* the first line: the version */
	EVENT_ADD,         /* a job was accepted */
	EVENT_KEEPER,      /* a keeper began: where it lives */
	EVENT_START,       /* an attempt began, by its keeper */
	EVENT_END,         /* an attempt ended, by its keeper or by the runner that found it lost */
	EVENT_FAIL,        /* a job failed without an attempt: what it waited for failed */
	EVENT_CANCEL,
	EVENT_HOLD,
	EVENT_RELEASE,
	EVENT_URGENT,
	EVENT_RETRY,
	EVENT_STUCK,  /* an attempt that was killed does not die */
	EVENT_HOOK,   /* the hook of an end that no keeper wrote is being run */
	EVENT_SEEN,   /* lines of a commands file whose jobs were pruned */
	EVENT_LEGACY, /* a line of the first gpu_dispatch, an object per job */
};

/* What a line says: slices of it, not yet unescaped. A member that is not there has type 0. */
struct record {
	enum event event;
	uint64_t id;
	uint32_t attempt; /* 1 where the line has none */
	int64_t time_ms;
	int version;
	int64_t pid;
	int64_t next_id;         /* of `journal` */
	int64_t num_gpus;        /* -1: not said */
	int64_t mem_mb;          /* -1 */
	int64_t min_free_mem_mb; /* -1 */
	int64_t timeout_ms;      /* -1 */
	int64_t retries;         /* -1 */
	int64_t priority;
	int64_t exit_code; /* -1: none */
	int64_t signal;    /* 0: none */
	int64_t duration_ms;
	int64_t peak_mem_mb; /* -1 */
	bool held;
	bool cwd_own;
	/* Slices of the line; together, so that they are quickly emptied. */
	union {
		struct {
			struct json_value command, command_b64, name, name_b64, cwd, cwd_b64, env, log, log_b64,
				log_dir, log_dir_b64;
			struct json_value file, file_b64, on_finish, on_finish_b64, reason, status, keeper, host, boot,
				pidns, by;
			struct json_value gpus, after, lines, start_time;
		};
		struct json_value values[26];
	};
};

/* 0, or -EBADMSG for a bad line. */
int record_parse(const char *line, size_t size, struct record *ret);

/* What record_write_start() writes. */
struct attempt_start {
	uint64_t id;
	uint32_t attempt;
	int64_t time_ms; /* 0: now */
	pid_t pid;
	const char *keeper;
	const char *log;
	const int *gpus;
	size_t num_gpus;
	int retries; /* the default of its runner, for a job that does not set them */
};

/* What record_write_end() writes. */
struct attempt_end {
	uint64_t id;
	uint32_t attempt;
	int64_t time_ms;      /* 0: now */
	enum job_state state; /* completed, failed or cancelled */
	int exit_code;        /* -1: none */
	int signal;           /* 0: none */
	const char *reason;   /* or NULL */
	int64_t duration_ms;  /* -1: not known */
	int64_t peak_mem_mb;  /* -1 */
	bool by_runner;       /* its keeper was gone: its hook has not been run */
};

/* Each appends one line with its newline. */
/* next_id: no job that is added later has a lower id. */
void record_write_journal(struct text *t, uint64_t next_id);
void record_write_add(struct text *t, uint64_t id, int64_t time_ms, const struct job_spec *spec);
void record_write_keeper(struct text *t, const char *keeper, pid_t pid, const struct machine *m);
void record_write_start(struct text *t, const struct attempt_start *s);
void record_write_end(struct text *t, const struct attempt_end *e);
void record_write_stuck(struct text *t, uint64_t id, uint32_t attempt);
void record_write_fail(struct text *t, uint64_t id, const char *reason);
/* A `seen` line up to where the hashes of its lines go; the caller ends it with "}\n". */
void record_begin_seen(struct text *t, const char *file);
/* cancel, hold, release, urgent, retry, hook; reason: NULL, or why it is cancelled */
void record_write_control(struct text *t, enum event event, uint64_t id, const char *reason);

#endif
