/* SPDX-License-Identifier: MIT */
/*
 * The decisions of a pilot, without I/O, clock, processes or randomness: events go in, actions come out.
 *
 *     pilot_core_create(&settings, &core);
 *     for (;;) {
 *             wait for input, at most until pilot_core_wake_ns(core);
 *             pilot_core_handle(core, now_ns, &event);          // or PILOT_TICK if nothing happened
 *             while (pilot_core_next(core, &action))
 *                     execute(&action);
 *     }
 *
 * Times are nanoseconds of CLOCK_BOOTTIME of the node. They must not go back. Execute the actions in the order in which
 * they come out, before passing in the next event. Pointers in an action are valid until the next pilot_core_handle().
 *
 * The caller is the agent. Before it creates the core it has created the outbox file and synced it. The guard above the
 * agent executes only PILOT_ARM: it arms a kernel timer that kills the guard, and with it agent, keepers and jobs. The
 * timer is authoritative; the core only avoids beginning attempts that the timer would kill.
 *
 * Guarantees:
 *  - PILOT_BEGIN comes out at most once for an (id, attempt), and only during a lease, for a grant of the current
 * session and epoch, and for an attempt that is later than all attempts seen of that job.
 *  - The deadline of PILOT_ARM is never after the end of the lease or the pilot's own end.
 *  - Each attempt that was begun has exactly one PILOT_RECORD, unless the pilot is killed first. The end is sent
 * again in each session until it is acknowledged.
 *  - An end is held back until it is certain that the pilot's own end did not cause it (`exit_hold_ns`,
 * `signal_hold_ns`).
 *  - After PILOT_SEND of FRAME_BYE no attempt is begun.
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
	uint64_t until_ns;  /* when the pilot ends itself; 0: never. Early enough for the grace period before the end of
			     * the Slurm job
			     */
	uint64_t grace_ns;  /* from PILOT_END_ALL to the SIGKILL of remaining processes, at until_ns and after SIGTERM;
			     * 0: 10 s
			     */
	uint64_t
		exit_hold_ns; /* 0: 150 ms; an exit within this time before the pilot's SIGTERM counts as interrupted */
	uint64_t signal_hold_ns; /* 0: 2 s; the same for a job killed by a signal that we did not send */
	uint64_t connect_ns;     /* 0: 1 s; pause between two connection attempts */
	uint64_t join_ns; /* 0: 10 min; a pilot that was never welcomed and has nothing to report leaves after this time
			   */
	uint32_t cpus;
	uint64_t host_bytes;
	const struct frame_gpu *gpus; /* copied */
	size_t num_gpus;
};

enum pilot_event_kind {
	PILOT_TICK = 1,     /* time passed */
	PILOT_CONNECTED,    /* the transport has authenticated the coordinator; `connection` names the connection */
	PILOT_DISCONNECTED, /* the connection was closed or could not be established */
	PILOT_FRAME,        /* a frame came through `connection` */
	PILOT_STARTED,      /* the attempt of PILOT_BEGIN is running, with `pid` */
	PILOT_NOT_STARTED,  /* the attempt did not run; `words`: the reason */
	PILOT_EXITED,       /* no process of the attempt is left: `exited` */
	PILOT_SAMPLED,      /* the GPUs: `gpus`, as many as in the settings */
	PILOT_TERM,         /* SIGTERM: Slurm is ending this job (scancel, preemption, walltime) */
};

/* How a job ended, as reported by its keeper. */
struct pilot_exit {
	struct attempt_id id;
	int exit_code;                /* -1: none */
	int signal;                   /* 0: none */
	bool ours;                    /* we ended it: timeout, cancel, or the end of the pilot */
	enum attempt_outcome outcome; /* by the same rules as on one machine: completed, failed, cancelled, or
					 interrupted (checkpoint) */
	uint64_t exited_ns;           /* when its first process ended, at most now */
	int64_t time_ms;              /* the rest as in struct frame_end */
	int64_t duration_ms;
	int64_t peak_mem_mb;
	int64_t energy_j;
	char reason[FRAME_REASON_ROOM];
};

struct pilot_event {
	enum pilot_event_kind kind;
	uint64_t connection;       /* CONNECTED, DISCONNECTED, FRAME: the number given by PILOT_CONNECT */
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
	PILOT_CLOSE,       /* `connection`; later events of it are ignored */
	PILOT_SEND,        /* `frame` through `connection` */
	PILOT_ARM,         /* tell the guard: kill everything at deadline_ns (CLOCK_BOOTTIME); later actions replace the
			      deadline */
	PILOT_BEGIN,       /* start the attempt `grant`; answer with STARTED or NOT_STARTED */
	PILOT_STOP,        /* end the attempt `id` according to `mode`; answer with EXITED when it has ended */
	PILOT_END_ALL,     /* like PILOT_STOP with CANCEL_INTERRUPT, for all running attempts */
	PILOT_RECORD, /* append `end` to the outbox and sync it. The core does not wait, but ends must be appended in
			 order */
	PILOT_LEAVE,  /* exit now; `words`: the reason. Remaining processes are killed */
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

/* 0 or -ENOMEM; after -ENOMEM the pilot must exit, because its state is incomplete. */
int pilot_core_handle(struct pilot_core *c, uint64_t now_ns, const struct pilot_event *event);
/* Gets the next action; false if there is none. */
bool pilot_core_next(struct pilot_core *c, struct pilot_action *ret);
/* The latest time for the next call, with PILOT_TICK. */
uint64_t pilot_core_wake_ns(const struct pilot_core *c);

/* The time until which the pilot has a lease; 0: none. */
uint64_t pilot_core_lease_end_ns(const struct pilot_core *c);
size_t pilot_core_num_running(const struct pilot_core *c);

#endif
