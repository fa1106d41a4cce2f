/* SPDX-License-Identifier: MIT */
/*
 * The messages between a coordinator and its pilots, as plain structs.
 *
 * This header defines no encoding: the transport encodes a frame, adds a counter and a MAC, and hands decoded frames of
 * authenticated peers to the cores (pilot_core.h, coordinator_core.h). The cores never see a frame that failed
 * a check. Pointers in a received frame are valid during the call that it is passed to; pointers in a frame to be sent
 * are valid until the next call of the same core.
 *
 * A *session* is one connection of one pilot. The pilot numbers its sessions 1, 2, 3…; each hello begins the next one
 * and closes all older ones. Every frame carries the epoch of the coordinator and the number of the session. A frame of
 * another epoch or another session is dropped by the cores, because connections may deliver in any order relative to
 * each other. Within a session frames arrive in the order they were sent, or not at all.
 *
 * The *lease* of a pilot is renewed only by the coordinator: by a welcome (for its hello) and by a renewal (for a
 * heartbeat). A renewal names the heartbeat that it answers, and the lease then lasts until the moment at which that
 * heartbeat was *sent*, by the pilot's own clock, plus lease_ms. So a renewal that was delayed, by the network or in a
 * stopped coordinator, never extends the lease beyond the time that the coordinator waits.
 */
#ifndef SLURM_FRAME_H
#define SLURM_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Raised with each change that an older peer would misread; peers of another version are refused. */
#define FRAME_VERSION 3

#define FRAME_NAME_ROOM   64   /* a pilot's or node's name with its NUL */
#define FRAME_WORDS_ROOM  256  /* a message with its NUL */
#define FRAME_REASON_ROOM 1024 /* why an attempt ended, with its NUL: contains paths and advice */
#define FRAME_MAX_GPUS    64   /* per node */

enum frame_kind {
	FRAME_HELLO = 1, /* pilot: identity, resources, known attempts */
	FRAME_WELCOME,   /* coordinator: accepts the pilot and grants the lease */
	FRAME_REFUSE,    /* coordinator: end now, kill everything; nothing follows */
	FRAME_GRANT,     /* coordinator: begin this attempt. Its `start` is synced */
	FRAME_BEGUN,     /* pilot: the attempt is running */
	FRAME_REJECT,    /* pilot: the attempt was not begun and never will be */
	FRAME_FREED,     /* pilot: no process of the attempt is left, its GPUs are free; its end follows */
	FRAME_END,       /* pilot: how the attempt ended; sent again in each session until it is acknowledged */
	FRAME_END_ACK,   /* coordinator: the end is synced to the journal */
	FRAME_HEARTBEAT, /* pilot: still alive; with a sample of its GPUs */
	FRAME_RENEW,     /* coordinator: the answer to a heartbeat; renews the lease */
	FRAME_CANCEL,    /* coordinator: end this attempt */
	FRAME_RELEASE,   /* coordinator: leave when nothing runs and all ends are acknowledged */
	FRAME_ENDING,    /* pilot: it must end (SIGTERM, or its time limit): grant nothing more */
	FRAME_BYE,       /* pilot: nothing runs, all ends are acknowledged, and it begins nothing more */
};

/* "hello", … */
const char *frame_kind_name(enum frame_kind kind);

/* An attempt of a job. The number of an attempt is never reused for a job, not even after a void. */
struct attempt_id {
	uint64_t job;
	uint32_t attempt;
};

/* Outcome of an attempt; the values are written to outbox files. */
enum attempt_outcome {
	OUTCOME_COMPLETED = 1,
	OUTCOME_FAILED,
	OUTCOME_CANCELLED,
	OUTCOME_INTERRUPTED, /* the pilot ended: neither completed nor failed, no retry is spent */
};

/* "completed", … */
const char *attempt_outcome_name(enum attempt_outcome outcome);

/* How an attempt ended: the content of an outbox line and of an `end` or `interrupted` line of the journal. */
struct frame_end {
	struct attempt_id id;
	enum attempt_outcome outcome;
	int exit_code;                  /* -1: none */
	int signal;                     /* 0: none */
	int64_t time_ms;                /* wall clock of the node, informational; 0: unknown */
	int64_t duration_ms;            /* -1: unknown */
	int64_t peak_mem_mb;            /* -1: unknown */
	int64_t energy_j;               /* 0: unknown */
	char reason[FRAME_REASON_ROOM]; /* "": none */
};

/* A GPU of a node. Its number in the pilot is its position in the hello, which never changes. */
struct frame_gpu {
	int32_t index;        /* as the node's driver numbers it */
	uint64_t total_bytes; /* 0: unknown, for all of these */
	uint64_t free_bytes;
	uint64_t used_by_others_bytes; /* by processes that do not belong to this pilot's jobs */
	uint32_t utilization;          /* percent */
	uint32_t healthy;              /* 0: lost or not answering */
	bool utilization_known;
	char uuid[FRAME_NAME_ROOM];
	char name[FRAME_NAME_ROOM];
};

/* An attempt that the pilot knows, in a hello. */
enum known_state {
	KNOWN_RUNNING = 1, /* its processes may be alive */
	KNOWN_ENDED,       /* it has ended; its end was not acknowledged and follows the welcome */
};

struct known_attempt {
	struct attempt_id id;
	enum known_state state;
};

struct frame_hello {
	uint32_t version;              /* FRAME_VERSION */
	char pilot[FRAME_NAME_ROOM];   /* unique for each process: a Slurm job that is launched twice is two pilots */
	char node[FRAME_NAME_ROOM];    /* as Slurm names it */
	char boot_id[FRAME_NAME_ROOM]; /* /proc/sys/kernel/random/boot_id of the node */
	uint64_t slurm_job;
	int64_t started_ms;   /* when the pilot started, wall clock of the node */
	int64_t remaining_ms; /* until the pilot ends itself, at the moment the hello is sent; -1: never */
	int64_t lease_ms;     /* the largest lease that it was ever granted; 0: none yet */
	uint64_t last_epoch;  /* the highest epoch it was ever welcomed by; 0: none */
	bool lock_is_free;    /* `runner.lock` looks free by F_GETLK: locks do not work on this file system */
	uint32_t cpus;
	uint64_t host_bytes; /* main memory of the allocation; 0: unknown */
	const struct frame_gpu *gpus;
	size_t num_gpus;
	/* Every attempt that was begun and whose end was not acknowledged. An attempt of this pilot that is not in this
	 * list, and whose end is not in the journal, was not begun and will not be. */
	const struct known_attempt *attempts;
	size_t num_attempts;
};

struct frame_welcome {
	int64_t lease_ms;     /* counts from the moment the hello was sent */
	int64_t silence_ms;   /* the pilot reconnects after this time without a frame from the coordinator */
	int64_t heartbeat_ms; /* interval between heartbeats */
};

/* Why a pilot is refused. */
enum refusal {
	REFUSAL_DEAD = 1, /* it was proven dead, and its jobs were given to other pilots */
	REFUSAL_OLD,      /* the session or epoch of the hello is older than the last one seen: a stale process */
	REFUSAL_VERSION,
	REFUSAL_UNWANTED, /* the queue is finished, or the pilot belongs to another queue */
};

struct frame_refuse {
	enum refusal refusal;
	char words[FRAME_WORDS_ROOM];
};

struct frame_grant {
	struct attempt_id id;
	const int *gpus; /* positions in the hello */
	size_t num_gpus;
	const void *order; /* what to execute; opaque to the cores */
	size_t order_size;
};

struct frame_begun {
	struct attempt_id id;
	int64_t pid; /* on the node, informational */
};

/* Why a grant was rejected. */
enum rejection {
	REJECTION_REPEATED = 1, /* this attempt, or a later one of the job, was seen before */
	REJECTION_LEASE,        /* the lease had ended */
	REJECTION_ENDING,       /* the pilot is about to end */
	REJECTION_CANCELLED,    /* a cancel came first */
	REJECTION_START,        /* no process could be started */
};

struct frame_reject {
	struct attempt_id id;
	enum rejection rejection;
	char words[FRAME_WORDS_ROOM];
};

struct frame_heartbeat {
	uint64_t number;              /* rises with each heartbeat of the session, from 1 */
	int64_t remaining_ms;         /* as in the hello */
	const struct frame_gpu *gpus; /* as many as in the hello; empty if there is no new sample */
	size_t num_gpus;
};

struct frame_renew {
	uint64_t number; /* the heartbeat that it answers */
	int64_t lease_ms;
};

/* How to end an attempt. */
enum cancel_mode {
	CANCEL_ASK = 1,   /* SIGTERM, then SIGKILL after the grace period: cancelled */
	CANCEL_KILL,      /* SIGKILL now: cancelled */
	CANCEL_INTERRUPT, /* as CANCEL_ASK, but the outcome is interrupted */
	CANCEL_DISCARD,   /* SIGKILL now: the journal already has an end of this attempt */
};

struct frame_cancel {
	struct attempt_id id;
	enum cancel_mode mode;
};

struct frame {
	enum frame_kind kind;
	uint64_t epoch;   /* of the coordinator; 0 in a first hello */
	uint64_t session; /* of the pilot */
	union {
		struct frame_hello hello;
		struct frame_welcome welcome;
		struct frame_refuse refuse;
		struct frame_grant grant;
		struct frame_begun begun;
		struct frame_reject reject;
		struct attempt_id freed;
		struct frame_end end;
		struct attempt_id end_ack;
		struct frame_heartbeat heartbeat;
		struct frame_renew renew;
		struct frame_cancel cancel;
		/* release, ending and bye have no content */
	};
};

#endif
