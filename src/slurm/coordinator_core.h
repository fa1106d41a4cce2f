/* SPDX-License-Identifier: MIT */
/*
 * The decisions of a coordinator about pilots and attempts, without I/O, clock, processes or randomness: events go in,
 * actions come out, as in pilot_core.h.
 *
 *     coordinator_core_create(&settings, &core);
 *     coordinator_core_restore_pilot(), coordinator_core_restore_attempt(): the state from the journal
 *     coordinator_core_begin(core, now_ns);
 *     for (;;) {
 *             coordinator_core_handle(core, now_ns, &event);
 *             while (coordinator_core_next(core, &action))
 *                     execute(&action);
 *     }
 *
 * Before the core is created, the caller holds `runner.lock`, has raised the fence and has appended and synced a
 * `coordinator` record with the new epoch. Times are nanoseconds of CLOCK_MONOTONIC of the coordinator's host and must
 * not go back. Which job starts on which pilot is decided by the scheduler (queue/schedule/scheduler.h); the core
 * decides whether and when the grant is sent, and when a job may be given to another pilot: as soon as its attempt has
 * an end in the journal, which only this core writes.
 *
 * Writes. An action COORDINATOR_WRITE asks for one line of the journal and for its sync; the caller answers each with
 * COORDINATOR_WRITTEN and the number of the write, in any order, even much later. Lines are appended in the order of
 * the actions. WRITE_END is always appended: a pilot has reported it, and the first end of an attempt counts. All
 * others are appended only if no other coordinator has raised the fence since (result -ESTALE otherwise, checked under
 * the append lock). Otherwise a coordinator that was stopped and replaced could declare pilots dead although the new
 * one has answered them all the time. A `start` is also refused (result -ECANCELED, nothing was written) if the job was
 * cancelled, held or pruned since.
 *
 * The epoch is checked after a heartbeat or hello arrived and before it is answered: COORDINATOR_CHECK asks for one
 * read of the fence (a pread of append.lock), COORDINATOR_CHECKED answers. So a coordinator that was replaced renews no
 * lease that began after its successor had started, even if it does not know that it was replaced.
 *
 * Guarantees:
 *  - A grant is sent only after its `start` was synced, once, in the session in which the pilot is connected, and not
 * before every pilot of the journal and of Slurm's listing has connected to this coordinator or is proven dead.
 *  - An attempt gets an end that its pilot did not report only after proof of the pilot's death and after its outbox
 * was read.
 *  - After a restart, no pilot is declared dead before COORDINATOR_GRACE_NS have passed or the longest lease that it
 * may have has ended, whichever comes first.
 *  - An end is acknowledged only after it was synced; a later end of the same attempt is acknowledged and not written.
 */
#ifndef SLURM_COORDINATOR_CORE_H
#define SLURM_COORDINATOR_CORE_H

#include "slurm/frame.h"
#include "slurm/listing.h"

/* How long no pilot is declared dead after a restart, because it may be about to connect. See the guarantees above. */
#define COORDINATOR_GRACE_NS 60000000000ull
/* A job that was lost with its pilot this many times is held: the job may be the cause of the node failures. */
#define COORDINATOR_LOSSES 3
/* The reason recorded for an attempt that was lost with its pilot; the caller counts such attempts of a job for
 * `losses`. */
#define REASON_PILOT_LOST "pilot lost"

struct coordinator_core;

struct coordinator_settings {
	uint64_t epoch;       /* of this coordinator, from 1; 1: first coordinator of the queue, nothing to wait for */
	int64_t lease_ms;     /* 0: 900 s */
	int64_t silence_ms;   /* 0: 15 s */
	int64_t margin_ms;    /* 0: lease / 20, at least 2 s; covers clock drift over one lease */
	int64_t max_lease_ms; /* the largest lease that any coordinator of this queue ever granted, from the journal */
};

/* A pilot of the journal that is not recorded as gone. */
struct restored_pilot {
	const char *name;
	const char *node;
	uint64_t slurm_job;
	int64_t started_ms; /* wall clock of the node; 0: unknown */
	int64_t lease_ms;   /* the largest lease that it was granted */
};

/* An attempt that is running according to the journal. */
struct restored_attempt {
	struct attempt_id id;
	const char *pilot;
	unsigned losses; /* earlier attempts of the job with REASON_PILOT_LOST */
};

enum coordinator_event_kind {
	COORDINATOR_TICK = 1,
	COORDINATOR_FRAME, /* `frame` of an authenticated pilot through `connection`; the first one is its hello */
	COORDINATOR_DISCONNECTED, /* `connection` was closed */
	COORDINATOR_START,        /* the scheduler wants `start` */
	COORDINATOR_CANCEL,       /* end the attempt `id` according to `mode`; ignored if it has ended */
	COORDINATOR_WRITTEN,      /* the write `number` is synced, or `result` is negative */
	/* The check `number`. result 0: this coordinator still owns the queue; -ESTALE: it does not; other: unknown,
	 * and the core requests another check later. */
	COORDINATOR_CHECKED,
	/*
	 * The outbox of `pilot` was opened again and read: `ends`. result: 0, or why it was not read: -ENOENT, -EIO,
	 * -ESTALE; -EBADMSG for a bad line that is not the last one. On failure the core requests it again later.
	 */
	COORDINATOR_OUTBOX,
	COORDINATOR_LISTED,        /* `listing` */
	COORDINATOR_RELEASE_PILOT, /* `pilot` is no longer needed: it leaves when it is idle */
	COORDINATOR_LEAVE, /* the queue is finished, or the coordinator exits: release all pilots, grant nothing more */
};

struct coordinator_start {
	struct attempt_id id; /* a new attempt number for the job */
	const char *pilot;
	const int *gpus; /* positions in its hello */
	size_t num_gpus;
	const void *order; /* copied; for the grant */
	size_t order_size;
	unsigned losses;   /* see struct restored_attempt */
	int64_t needed_ms; /* how long the attempt may take: its timeout, or the duration of similar attempts; 0:
			      unknown */
};

struct coordinator_event {
	enum coordinator_event_kind kind;
	uint64_t connection;
	const struct frame *frame;
	struct coordinator_start start;
	struct attempt_id id;         /* CANCEL */
	enum cancel_mode mode;        /* CANCEL */
	uint64_t number;              /* WRITTEN, CHECKED */
	int result;                   /* WRITTEN, CHECKED, OUTBOX: 0 or a negative errno value */
	const char *pilot;            /* OUTBOX, RELEASE_PILOT */
	const struct frame_end *ends; /* OUTBOX */
	size_t num_ends;
	const struct slurm_listing *listing;
};

/* One line of the journal. */
enum write_kind {
	WRITE_START = 1, /* id, gpus, pilot */
	WRITE_END,       /* end: `end`, or `interrupted` if its outcome is OUTCOME_INTERRUPTED */
	WRITE_VOID,      /* id: the attempt was never begun */
	WRITE_LOST,  /* end: `interrupted` with REASON_PILOT_LOST; if `hold`, followed by `hold` of the job in the same
			write */
	WRITE_PILOT, /* pilot: lease, until, node, slurm_job */
	WRITE_PILOT_GONE, /* pilot: with "status":"gone"; it is no longer restored */
};

struct coordinator_write {
	enum write_kind kind;
	uint64_t number; /* for COORDINATOR_WRITTEN */
	struct attempt_id id;
	const struct frame_end *end;
	bool hold;
	const char *pilot;
	const char *node;
	uint64_t slurm_job;
	int64_t started_ms;
	int64_t lease_ms;     /* WRITE_PILOT: the largest lease that it was granted */
	int64_t remaining_ms; /* WRITE_PILOT: until its own end; -1: never. `until` in the journal is informational */
	const int *gpus;
	size_t num_gpus;
};

/* Proof that a pilot is dead. */
enum death_proof {
	PROOF_NONE = 0,
	PROOF_LEASE, /* (a) its lease and the margin have passed since the last answer to it */
	PROOF_UNTIL, /* (b) its own end has passed */
	PROOF_BOOT,  /* (c) its node booted after the pilot started */
	PROOF_SLURM, /* (d) its Slurm job has ended */
};

/* "lease", … */
const char *death_proof_name(enum death_proof proof);

enum coordinator_action_kind {
	COORDINATOR_SEND = 1,    /* `frame` through `connection` */
	COORDINATOR_CLOSE,       /* `connection`, after all queued frames */
	COORDINATOR_WRITE,       /* `write` */
	COORDINATOR_CHECK,       /* the epoch; `number` for the answer */
	COORDINATOR_READ_OUTBOX, /* open the outbox of `pilot` and read it; do not reuse an open descriptor
				  */
	COORDINATOR_LIST,        /* ask Slurm for a listing */
	COORDINATOR_READY, /* `pilot` takes jobs: `gpus` as of its last sample, cpus, host_bytes, remaining_ms. Also
			      with each sample */
	COORDINATOR_AWAY,  /* `pilot` takes no jobs for now; its attempts still count as running. `words` */
	COORDINATOR_GONE,  /* `pilot` has ended, and so have its attempts in the journal. `proof`, or PROOF_NONE if it
			      sent bye. result 1: Slurm or its time limit ended it. `words` */
	COORDINATOR_BEGAN, /* the attempt `id` is running, with `pid` on its node */
	COORDINATOR_FREED, /* the GPUs of the attempt `id` are free; its end follows */
	COORDINATOR_NOT_STARTED, /* `id` of a COORDINATOR_START: nothing was written. Withdraw it from the scheduler;
				    result: the reason */
	COORDINATOR_RECOVERED,   /* starts are accepted from now on */
	COORDINATOR_SUPERSEDED,  /* another coordinator owns the queue: exit. Nothing more is sent or written */
	COORDINATOR_SAY,         /* `words`: a message for the user */
};

struct coordinator_action {
	enum coordinator_action_kind kind;
	uint64_t connection;
	const struct frame *frame;
	const struct coordinator_write *write;
	uint64_t number;
	const char *pilot;
	const char *node;
	const struct frame_gpu *gpus;
	size_t num_gpus;
	uint32_t cpus;
	uint64_t host_bytes;
	int64_t remaining_ms; /* -1: never */
	struct attempt_id id;
	int64_t pid;
	int result;
	enum death_proof proof;
	const char *words;
};

/* 0 or -ENOMEM. The settings are copied. */
int coordinator_core_create(const struct coordinator_settings *settings, struct coordinator_core **ret);
void coordinator_core_destroy(struct coordinator_core *c);
int coordinator_core_restore_pilot(struct coordinator_core *c, const struct restored_pilot *pilot);
/* The attempt's pilot may be restored or unknown; an unknown pilot is restored, too, without a node. */
int coordinator_core_restore_attempt(struct coordinator_core *c, const struct restored_attempt *attempt);
int coordinator_core_begin(struct coordinator_core *c, uint64_t now_ns);

/* 0 or -ENOMEM; after -ENOMEM the coordinator must exit: the next one finds everything in the journal. */
int coordinator_core_handle(struct coordinator_core *c, uint64_t now_ns, const struct coordinator_event *event);
/* Gets the next action; false if there is none. Pointers in it are valid until the next coordinator_core_handle(). */
bool coordinator_core_next(struct coordinator_core *c, struct coordinator_action *ret);
/* The latest time for the next call, with COORDINATOR_TICK. */
uint64_t coordinator_core_wake_ns(const struct coordinator_core *c);

/* Whether starts are accepted. Until then coordinator_core_waits_for() returns the reason. */
bool coordinator_core_is_recovered(const struct coordinator_core *c);
/* "pilot p3 on node7 has not connected yet (…)"; "" if it waits for nothing. Returns `words`. */
const char *coordinator_core_waits_for(const struct coordinator_core *c, uint64_t now_ns, char words[FRAME_WORDS_ROOM]);

/* Pilots as `status` and `why` show them. */
enum pilot_state {
	PILOT_STATE_EXPECTED = 0, /* from the journal: it has not connected to this coordinator */
	PILOT_STATE_JOINING,      /* its record is being written */
	PILOT_STATE_READY,
	PILOT_STATE_ENDING, /* it takes no new jobs */
	PILOT_STATE_AWAY,   /* not connected, or silent: it may be alive */
	PILOT_STATE_DEAD,   /* proven dead; its outbox is being read, its attempts are being ended */
	PILOT_STATE_GONE,
};

/* "expected", … */
const char *pilot_state_name(enum pilot_state state);

struct pilot_info {
	const char *name;
	const char *node;
	uint64_t slurm_job;
	enum pilot_state state;
	uint64_t heard_ns; /* time of the last frame; 0: none */
	uint64_t dead_ns;  /* the latest time at which the lease proves it dead */
	size_t num_attempts;
	size_t num_gpus;
};

size_t coordinator_core_num_pilots(const struct coordinator_core *c);
/* Number of attempts that are being started, may run, or whose end is being written. */
size_t coordinator_core_num_attempts(const struct coordinator_core *c);
/* The `index`th pilot that is not gone; false if there is none. */
bool coordinator_core_pilot(const struct coordinator_core *c, size_t index, struct pilot_info *ret);

#endif
