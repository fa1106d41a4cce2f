/* SPDX-License-Identifier: MIT */
/*
 * The processes between a runner and its jobs.
 *
 *     runner ── nursery ── keeper ── job
 *                     └─── keeper ── job
 *
 * The *nursery* is forked before the runner has read the journal, so it stays
 * small and forks cheaply. It makes keepers, is the subreaper above them, and ends
 * what a killed keeper has left behind. When the runner is gone it stays until
 * its last keeper has left.
 *
 * A *keeper* owns one job at a time: its session, its log, its time limit, its exit
 * status and the lines `start` and `end`. It holds the lock of its own file in
 * keepers/ as long as it lives. It is reused for job after job; when
 * the runner is gone, it finishes the job it has and leaves.
 *
 * The job's first process appends `start` itself, between fork and exec, for it
 * knows its PID; it dies with its keeper (PDEATHSIG). So when nobody holds a
 * keeper's lock, a job of its that has no `end` is not running, or
 * is about to be killed; what it left is found by GPUQ_COOKIE in its environment, or, while
 * the nursery or the runner lives, by being its child: both are subreapers.
 *
 * While its job runs on a GPU that other queues may use as well, the keeper holds the job's claim (claims.h).
 *
 * Runner and keeper speak over a stream socket, each message with a header of
 * fixed size; both ends are the same program, forked, not executed.
 */
#ifndef QUEUE_KEEPER_KEEPER_H
#define QUEUE_KEEPER_KEEPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text.h"
#include "queue/journal/journal.h"

/* ---- runner → keeper ------------------------------------------------------ */

enum keeper_order_kind {
	KEEPER_ORDER_RUN = 1, /* with a payload of `size` bytes, below */
	KEEPER_ORDER_CANCEL,  /* end job `id` */
	KEEPER_ORDER_KILL,    /* the same, at once */
	KEEPER_ORDER_LOST,    /* the same, for its GPU is lost */
	KEEPER_ORDER_SEEN,    /* what was seen of job `id` on its GPUs: peak_mem_mb and gpu_full, for its `end` */
	KEEPER_ORDER_SETTLED, /* the memory of job `id` no longer grows: for its claim */
	KEEPER_ORDER_HOOK,    /* with a payload: run its hook, for an end that was not written by a keeper */
};

struct keeper_order {
	uint32_t kind;
	uint32_t attempt;
	uint64_t id;
	uint64_t fence;
	int64_t timeout_ms;  /* 0: none */
	int64_t peak_mem_mb; /* -1: not known */
	int64_t grace_ms;
	int64_t retries; /* for a job that says nothing of them */
	uint32_t num_gpus;
	uint32_t num_env; /* changes to the environment */
	uint32_t gpu_full;
	uint64_t size;
	/*
	 * The payload: command, cwd, env (its name in the store), log_dir, on_finish, name, claim (its text),
	 * input (of the hook), each ended by a NUL, "" for none; num_env × "NAME=value" to set or "NAME" to unset;
	 * num_gpus × int32_t.
	 */
};

/* ---- keeper → runner ------------------------------------------------------ */

enum keeper_note_kind {
	KEEPER_NOTE_READY = 1, /* after KEEPER_NOTE_REFUSED, or KEEPER_NOTE_ENDED and the hook: waits for an order */
	KEEPER_NOTE_REFUSED,   /* nothing was started: `code` is -ESTALE (the fence) or why `part` could not be had */
	KEEPER_NOTE_ENDED,     /* `end` is in the journal; code: its enum job_state */
	KEEPER_NOTE_BLOCKED,   /* `end` cannot be written now, `code` says why; it is tried again */
	KEEPER_NOTE_HELLO,     /* the first one: `id` is its PID */
};

struct keeper_note {
	uint32_t kind;
	int32_t code;
	uint64_t id;
	uint64_t part; /* enum attempt_part */
};

/* The name of the variable by which processes of an attempt are known: KEEPER-ID-ATTEMPT. */
#define KEEPER_COOKIE "GPUQ_COOKIE"
void keeper_cookie(struct text *t, const char *keeper, uint64_t id, uint32_t attempt);

/* What a nursery and its keepers need to know; paths are absolute. */
struct nursery_options {
	const char *journal_path;
};

/* Forks the nursery; call it while the process is small and has one thread. ret_fd: the runner's end. */
int nursery_start(const struct nursery_options *options, pid_t *ret_pid, int *ret_fd, struct gd_error *err);
/* Asks for one more keeper; ret_fd: the runner's end of its socket, not blocking. */
int nursery_add_keeper(int nursery_fd, int *ret_fd);
/* The same for a process that syncs the journal for each byte that it is sent: syncing takes long, and a runner must
 * not. */
int nursery_add_syncer(int nursery_fd, int *ret_fd);

/* The body of a keeper; does not return. fd: its end of the socket. */
_Noreturn void keeper_main(const char *journal_path, int fd);

/* Tells the keeper of that name to end the job, whoever started it: 0, -ESRCH where nobody holds its lock. */
int keeper_signal_cancel(const struct journal *j, const char *keeper, uint64_t id, bool at_once);

#endif
