/* SPDX-License-Identifier: MIT */
/*
 * Messages over stream sockets: orders to the keeper, notes from it.
 *
 * The runner that starts a keeper has a socket to it from the beginning. Other processes connect to
 * the keeper's own socket (keeper_socket.h): a later runner and the runner of a lease, which send
 * KEEPER_ORDER_ADOPT first, and `gpuq cancel`, `pause` and `resume`. On each connection the keeper sends the first
 * message: KEEPER_NOTE_HELLO.
 *
 * The two ends may be different builds of gpuq, if gpuq was upgraded while a job runs. So each message
 * begins with the size that its struct has at its sender: fields are only ever added at the end,
 * missing ones are zero, unknown ones are skipped. Orders of an unknown kind are ignored. A change
 * that this does not cover needs a new keeper_protocol number; across different numbers only
 * KEEPER_ORDER_ADOPT is sent, and the runner reports that it waits for the job. Except for the job
 * of a lease (lease.h), jobs and hooks are given only to keepers that the same process has started.
 */
#ifndef QUEUE_KEEPER_KEEPER_MESSAGES_H
#define QUEUE_KEEPER_KEEPER_MESSAGES_H

#include <stdint.h>

/* ---- runner → keeper ------------------------------------------------------ */

extern const int32_t keeper_protocol;

enum keeper_order_kind {
	KEEPER_ORDER_RUN = 1,   /* with a payload of `size` bytes, below */
	KEEPER_ORDER_CANCEL,    /* end job `id` */
	KEEPER_ORDER_KILL,      /* the same, at once */
	KEEPER_ORDER_LOST,      /* the same, because its GPU is lost */
	KEEPER_ORDER_SEEN,      /* usage of job `id` on its GPUs, for its `end` */
	KEEPER_ORDER_SETTLED,   /* the memory of job `id` no longer grows, for its claim */
	KEEPER_ORDER_INTERRUPT, /* end job `id`, because its allocation ends */
	KEEPER_ORDER_HOOK,      /* with a payload: run the hook of an end whose own keeper could not */
	KEEPER_ORDER_ADOPT,  /* from a later runner, which gets the notes from now on. The keeper exits after its job */
	KEEPER_ORDER_PAUSE,  /* stop the processes of job `id`; its time limit is suspended */
	KEEPER_ORDER_RESUME, /* continue them */
	KEEPER_ORDER_IDLE,   /* how long GPUs of job `id` were idle, for the hook of its end */
};

struct keeper_order {
	uint32_t bytes; /* sizeof(struct keeper_order); fields never move, see above */
	uint32_t kind;
	uint64_t id;
	uint64_t size; /* size of the payload */
	uint64_t fence;
	int64_t timeout_ms;  /* 0: none */
	int64_t peak_mem_mb; /* -1: not known */
	int64_t grace_ms;
	int64_t retries; /* default for a job without a number of retries */
	int64_t max_log_bytes;
	uint32_t attempt;
	uint32_t num_gpus;
	uint32_t num_env; /* changes to the environment */
	uint32_t gpu_full;
	uint32_t log_access; /* enum log_access */
	uint32_t cwd_own;    /* cwd must belong to the user or root */
	uint32_t log_trust;  /* enum log_trust */
	uint32_t hook_own;   /* on_finish is the job's own, not the runner's */
	uint32_t hook_try;   /* for KEEPER_ORDER_HOOK */
	uint32_t hook_idle;  /* for KEEPER_ORDER_HOOK: run because a GPU of the job is idle, not for an end */
	/* The identity of cwd when the job was added, also without cwd_own. cwd_ino 0: not known. */
	uint64_t cwd_dev;
	uint64_t cwd_ino;
	int64_t warn_before_ms; /* how long before the time limit warn_signal is sent */
	uint32_t warn_signal;   /* 0: none */
	uint32_t requeue_on;    /* the exit code by which a job asks to be requeued; 0: none */
	/* For KEEPER_ORDER_SEEN: of all GPUs together while the job had them alone, and for how long that was
	 * measured. */
	int64_t mean_power_mw;
	int64_t power_span_ms; /* 0: not known */
	/* For KEEPER_ORDER_IDLE: see struct attempt_idle. */
	int64_t idle_at_ms, idle_since_ms, idle_ms;
	uint64_t idle_gpus; /* bits: which of the job's first 64 GPUs are idle at that moment */
	uint64_t slurm_job; /* of the pilot, for the name of the log; 0: none */
	int64_t added_ms;   /* when the job was added; 0: not known */
	uint64_t log_tag;   /* with slurm_job: see slurm/log_name.h */

	/*
	 * The payload: command, cwd, env (its name in the store), log_dir, on_finish, name, claim (its
	 * text), input, each terminated by a NUL, "" if absent; num_env × "NAME=value" to set or
	 * "NAME" to unset; num_gpus × int32_t. The input: for KEEPER_ORDER_HOOK the hook's input; for
	 * KEEPER_ORDER_RUN the job as journal lines (record_write_job()), from which the keeper makes
	 * the input; "" without a hook.
	 */
};

/* A change to the environment that the job's first process also applies to itself: its CPUs, see base/cpu_list.h. */
#define KEEPER_CPUS "GPUQ_CPUS"

/* ---- keeper → runner ------------------------------------------------------ */

enum keeper_note_kind {
	KEEPER_NOTE_READY = 1, /* idle, after KEEPER_NOTE_REFUSED, or after KEEPER_NOTE_ENDED and the hook */
	KEEPER_NOTE_REFUSED,   /* nothing was started: `code` is -ESTALE (the fence) or the error of `part` */
	KEEPER_NOTE_ENDED,     /* `end` is in the journal; code: its enum job_state */
	KEEPER_NOTE_BLOCKED,   /* `end` cannot be written now because of `code`; the keeper retries */
	KEEPER_NOTE_HELLO,     /* the first note: `id` is the keeper's PID, `code` its keeper_protocol */
};

struct keeper_note {
	uint32_t bytes; /* sizeof(struct keeper_note) */
	uint32_t kind;
	int32_t code;
	uint32_t part; /* enum attempt_part */
	uint64_t id;
};

/* Message sizes outside this range are rejected. The minimum is what a reader needs to skip to the next message. */
#define KEEPER_MESSAGE_MIN ((uint32_t)24)
#define KEEPER_MESSAGE_MAX ((uint32_t)4096)

#endif
