/* SPDX-License-Identifier: MIT */
/*
 * What a pilot decides, without I/O, clock, processes or randomness: events go in, actions come out.
 *
 *     pilot_core_create(&settings, &core);
 *     for (;;) {
 *             wait for input, at most until pilot_core_wake_ns(core);
 *             pilot_core_handle(core, now_ns, &event);          // or PILOT_TICK if nothing happened
 *             while (pilot_core_next(core, &action))
 *                     execute(&action);
 *     }
 *
 * Times are nanoseconds of CLOCK_BOOTTIME of the node. They must not go back. Actions are to be executed
 * in the order in which they come out, before the next event goes in. Pointers in an action are valid until the
 * next pilot_core_handle().
 *
 * The caller is the agent. Before it creates the core it has created the outbox file and synced it. The guard above the
 * agent executes PILOT_ARM alone: it arms a kernel timer that kills the guard, and with it agent, keepers and jobs. The
 * timer is the truth; the core only avoids beginning what the timer would kill.
 *
 * Promised:
 *  - PILOT_BEGIN comes out at most once for an (id, attempt), never for an attempt that is not later than all seen
 *    ones of that job, never without a lease, and only for a grant of the current session and epoch.
 *  - The deadline of PILOT_ARM never lies beyond the lease, nor beyond the pilot's own end.
 *  - Each attempt that was begun has exactly one PILOT_RECORD, except where the pilot is killed before. The end is sent
 * again in each session until it is acknowledged.
 *  - An end is held back until it is certain that it is not one of the pilot's own end (`exit_hold_ns`,
 * `signal_hold_ns`).
 *  - After PILOT_SEND of FRAME_BYE nothing is begun any more.
 */
#ifndef SLURM_PILOT_CORE_H
#define SLURM_PILOT_CORE_H

#include "slurm/frame.h"

struct pilot_core;

struct pilot_settings {
	char pilot[FRAME_NAME_ROOM]; /* unique for this process, see frame.h */
	char node[FRAME_NAME_ROOM];
	char boot_id[FRAME_NAME_ROOM];
	uint64_t slurm_job;
	int64_t started_ms; /* wall clock, for the hello */
	uint64_t until_ns;  /* the pilot ends itself then; 0: never. Before the end of the Slurm job: the grace must fit
			     */
	uint64_t grace_ns;  /* from PILOT_END_ALL to the SIGKILL of what is left, at until_ns and after SIGTERM; 0: 10 s
			     */
	uint64_t exit_hold_ns;   /* 0: 150 ms; an exit so shortly before the pilot's SIGTERM is interrupted */
	uint64_t signal_hold_ns; /* 0: 2 s; the same for a death by a signal that we did not send */
	uint64_t connect_ns;     /* 0: 1 s; pause between two connection attempts */
	uint64_t
		join_ns; /* 0: 10 min; a pilot that nobody ever welcomed, and that has nothing to report, leaves then */
	uint32_t cpus;
	uint64_t host_bytes;
	const struct frame_gpu *gpus; /* copied */
	size_t num_gpus;
};

enum pilot_event_kind {
	PILOT_TICK = 1,     /* time passed */
	PILOT_CONNECTED,    /* the transport has authenticated the coordinator; `connection` names the connection */
	PILOT_DISCONNECTED, /* the connection, or the attempt to make it, is over */
	PILOT_FRAME,        /* a frame came through `connection` */
	PILOT_STARTED,      /* what PILOT_BEGIN asked for runs, with `pid` */
	PILOT_NOT_STARTED,  /* nothing of it ran: `words` says why */
	PILOT_EXITED,       /* no process of the attempt is left: `exited` */
	PILOT_SAMPLED,      /* the GPUs: `gpus`, as many as in the settings */
	PILOT_TERM,         /* SIGTERM: Slurm ends this job (scancel, preemption, walltime) */
};

/* How a job ended, as its keeper saw it. */
struct pilot_exit {
	struct attempt_id id;
	int exit_code; /* -1: none */
	int signal;    /* 0: none */
	bool ours;     /* we ended it: timeout, cancel, or the end of the pilot */
	enum attempt_outcome
		outcome;    /* by the rules of one machine: completed, failed, cancelled, or interrupted (checkpoint) */
	uint64_t exited_ns; /* when its first process ended, at most now */
	int64_t time_ms;    /* the rest as in struct frame_end */
	int64_t duration_ms;
	int64_t peak_mem_mb;
	char reason[FRAME_WORDS_ROOM];
};

struct pilot_event {
	enum pilot_event_kind kind;
	uint64_t connection;       /* CONNECTED, DISCONNECTED, FRAME: the number of PILOT_CONNECT */
	const struct frame *frame; /* FRAME */
	struct attempt_id id;      /* STARTED, NOT_STARTED */
	int64_t pid;               /* STARTED */
	bool lock_is_free;         /* CONNECTED: F_GETLK on `runner.lock` found no holder */
	const char *words;         /* NOT_STARTED */
	struct pilot_exit exited;
	const struct frame_gpu *gpus; /* SAMPLED */
	size_t num_gpus;
};

enum pilot_action_kind {
	PILOT_CONNECT = 1, /* connect to the coordinator: `connection`. Read its address again, it may have moved */
	PILOT_CLOSE,       /* `connection`; no event of it is expected any more, and one that comes is ignored */
	PILOT_SEND,        /* `frame` through `connection` */
	PILOT_ARM,         /* tell the guard: kill everything at deadline_ns (CLOCK_BOOTTIME); later calls replace it */
	PILOT_BEGIN,       /* start the attempt `grant`; answer with STARTED or NOT_STARTED */
	PILOT_STOP,        /* end the attempt `id` as `mode` says; answer with EXITED when it is over */
	PILOT_END_ALL,     /* as PILOT_STOP with CANCEL_INTERRUPT for everything that runs */
	PILOT_RECORD, /* append `end` to the outbox and sync it. Need not be awaited, but ends are appended in order */
	PILOT_LEAVE,  /* exit now; `words` says why. Whatever still lives is killed */
};

struct pilot_action {
	enum pilot_action_kind kind;
	uint64_t connection;
	const struct frame *frame;
	uint64_t deadline_ns;
	const struct frame_grant *grant;
	struct attempt_id id;
	enum cancel_mode mode;
	const struct frame_end *end;
	const char *words;
};

/* 0 or -ENOMEM. The settings are copied. */
int pilot_core_create(const struct pilot_settings *settings, uint64_t now_ns, struct pilot_core **ret);
void pilot_core_destroy(struct pilot_core *c);

/* 0 or -ENOMEM; after -ENOMEM the pilot must exit, as nothing is known of what was lost. */
int pilot_core_handle(struct pilot_core *c, uint64_t now_ns, const struct pilot_event *event);
/* The next action; false: none. */
bool pilot_core_next(struct pilot_core *c, struct pilot_action *ret);
/* When to call again with PILOT_TICK at the latest. */
uint64_t pilot_core_wake_ns(const struct pilot_core *c);

/* The time until which the pilot has a lease; 0: none. */
uint64_t pilot_core_lease_end_ns(const struct pilot_core *c);
size_t pilot_core_num_running(const struct pilot_core *c);

#endif
