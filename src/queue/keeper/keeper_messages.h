/* SPDX-License-Identifier: MIT */
/*
 * What a runner and its keepers say to each other, over a stream socket: orders to the
 * keeper, notes to the runner. Each message has a header of fixed size. Both ends are
 * the same program, forked and not executed, so the structs are sent as they are.
 */
#ifndef QUEUE_KEEPER_KEEPER_MESSAGES_H
#define QUEUE_KEEPER_KEEPER_MESSAGES_H

#include <stdint.h>

/* ---- runner → keeper ------------------------------------------------------ */

enum keeper_order_kind {
	KEEPER_ORDER_RUN = 1, /* with a payload of `size` bytes, below */
	KEEPER_ORDER_CANCEL,  /* end job `id` */
	KEEPER_ORDER_KILL,    /* the same, at once */
	KEEPER_ORDER_LOST,    /* the same, because its GPU is lost */
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
	int64_t retries; /* for a job that does not say how many */
	int64_t max_log_bytes;
	uint32_t num_gpus;
	uint32_t num_env; /* changes to the environment */
	uint32_t gpu_full;
	uint32_t log_access;   /* enum log_access */
	uint32_t cwd_own;      /* cwd must belong to the user or root */
	uint32_t log_accepted; /* other users may change log_dir: the user named it */
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

#endif
