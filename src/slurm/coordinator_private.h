/* SPDX-License-Identifier: MIT */
/* The state of a coordinator's core. Only coordinator_*.c include this. */
#ifndef SLURM_COORDINATOR_PRIVATE_H
#define SLURM_COORDINATOR_PRIVATE_H

#include "base/clock.h"
#include "slurm/attempt_table.h"
#include "slurm/coordinator_core.h"

/* State of the answer to a pilot's hello or heartbeat. */
enum answer_state {
	ANSWER_NONE,
	ANSWER_WAITING,  /* it arrived after the current check had started */
	ANSWER_CHECKING, /* the current check covers it */
};

/* The Slurm job of a pilot, while no listing has invalidated proof (d). */
struct slurm_watch {
	bool valid;
	int64_t ctld_boot_ms, slurmd_start_ms;
	uint64_t seen_ns;
};

struct known_pilot {
	char name[FRAME_NAME_ROOM], node[FRAME_NAME_ROOM];
	uint64_t slurm_job;
	int64_t started_ms;
	enum pilot_state state;
	bool restored;       /* from the journal */
	bool greeted;        /* this coordinator has welcomed it */
	bool recorded;       /* its record of this epoch is synced */
	bool ready_told;     /* the last report was COORDINATOR_READY */
	bool release, ended; /* asked to leave; it has reported that it is about to end */
	uint64_t connection; /* 0: none */
	uint64_t session;
	uint64_t heard_ns;
	uint64_t acked_ns; /* the last welcome or renewal; for a restored pilot the start of this coordinator */
	int64_t lease_ms;  /* the largest lease that it was ever granted */
	uint64_t end_ns;   /* it ends by itself by this time; 0: never, or unknown */
	uint64_t pause_until_ns;
	enum answer_state answer;
	uint64_t heartbeat; /* the heartbeat to answer; 0: the hello */
	struct slurm_watch watch;
	enum death_proof proof;
	bool outbox_done;
	uint64_t next_outbox_ns;
	int outbox_result;        /* of the last read, if it failed */
	uint64_t outbox_since_ns; /* when it first failed in this way */
	uint64_t write;           /* write of its record; 0: none in progress */
	enum write_kind write_kind;
	uint64_t retry_ns; /* when to repeat a failed write; 0: none failed */
	uint32_t cpus;
	uint64_t host_bytes;
	struct attempt_id
		*strays; /* attempts of the last hello that run on the pilot but not according to the journal */
	size_t num_strays, strays_capacity;
	struct frame_gpu *gpus;
	size_t num_gpus;
};

enum tracked_stage {
	ATTEMPT_WRITING, /* its start is being synced */
	ATTEMPT_SYNCED,  /* its grant waits for the welcome */
	ATTEMPT_GRANTED,
	ATTEMPT_RUNNING, /* it may run, according to the pilot or the journal */
	ATTEMPT_CLOSING, /* its end, void or loss is being synced */
};

struct granted_attempt {
	struct attempt_id id;
	struct known_pilot *pilot;
	enum tracked_stage stage;
	bool begun;              /* reported by the pilot */
	enum cancel_mode cancel; /* requested before the grant was sent; 0: none */
	unsigned losses;
	uint64_t write;
	enum write_kind write_kind;
	uint64_t retry_ns;
	struct frame_end end;
	int *gpus;
	size_t num_gpus;
	void *order;
	size_t order_size;
};

/* An action with the memory that it points to. */
struct coordinator_queued {
	struct coordinator_queued *next;
	struct coordinator_action action;
	struct frame frame;
	struct coordinator_write write;
	struct frame_end end;
	char name[FRAME_NAME_ROOM], node[FRAME_NAME_ROOM];
	char words[FRAME_WORDS_ROOM];
	char memory[];
};

struct coordinator_core {
	struct coordinator_settings settings;
	int64_t heartbeat_ms;
	uint64_t now_ns, begin_ns;
	int error;
	bool begun, recovered, leaving, superseded;
	bool listed_all; /* a listing since the start has shown no unknown pilot */
	struct known_pilot **pilots;
	size_t num_pilots, pilots_capacity;
	struct granted_attempt **attempts;
	size_t num_attempts, attempts_capacity;
	struct attempt_table ended; /* the highest attempt of each job that is known to have ended */
	uint64_t writes;            /* last number given */
	uint64_t checks, check;     /* last number given; the check in progress, or 0 */
	uint64_t check_ns;          /* when it began */
	uint64_t next_check_ns;     /* when to repeat a failed check; 0: the last one did not fail */
	uint64_t next_list_ns;
	struct coordinator_queued *first, **last, *given;
};

/* ---- coordinator_core.c ---- */
struct coordinator_queued *coordinator_push(
	struct coordinator_core *c, enum coordinator_action_kind kind, const struct known_pilot *p, size_t memory);
/* A frame for a connected pilot. NULL if out of memory. */
struct coordinator_queued *coordinator_push_frame(
	struct coordinator_core *c, const struct known_pilot *p, enum frame_kind kind, size_t memory);
struct coordinator_queued *coordinator_push_write(
	struct coordinator_core *c, enum write_kind kind, const struct known_pilot *p, size_t memory);
void coordinator_supersede(struct coordinator_core *c);
uint64_t coordinator_margin_ns(const struct coordinator_core *c, const struct known_pilot *p);

/* ---- coordinator_attempts.c ---- */
void coordinator_start(struct coordinator_core *c, const struct coordinator_start *start);
void coordinator_cancel(struct coordinator_core *c, struct attempt_id id, enum cancel_mode mode);
void coordinator_on_begun(struct coordinator_core *c, struct known_pilot *p, const struct frame_begun *f);
void coordinator_on_reject(struct coordinator_core *c, struct known_pilot *p, const struct frame_reject *f);
void coordinator_on_freed(struct coordinator_core *c, const struct known_pilot *p, struct attempt_id id);
void coordinator_on_end(struct coordinator_core *c, struct known_pilot *p, const struct frame_end *end);
/* A write has finished; false if it does not belong to an attempt. */
bool coordinator_attempt_written(struct coordinator_core *c, uint64_t number, int result);
/* Compares the attempts in a hello with those of the core. */
void coordinator_reconcile(struct coordinator_core *c, struct known_pilot *p, const struct frame_hello *hello);
/* The pilot was welcomed: sends the grants whose start is synced. */
void coordinator_grant_synced(struct coordinator_core *c, struct known_pilot *p);
/* The pilot is away: voids the grants that were not sent. */
void coordinator_void_synced(struct coordinator_core *c, struct known_pilot *p);
/* The pilot has sent bye: voids attempts that were granted and not begun. True: none of its attempts can run. */
bool coordinator_void_granted(struct coordinator_core *c, struct known_pilot *p);
/* The pilot is dead, and `ends` are all ends of its outbox. */
void coordinator_lose_attempts(
	struct coordinator_core *c, struct known_pilot *p, const struct frame_end *ends, size_t num_ends);
size_t coordinator_count_attempts(const struct coordinator_core *c, const struct known_pilot *p);
int coordinator_restore(struct coordinator_core *c, struct known_pilot *p, const struct restored_attempt *a);
void coordinator_step_attempts(struct coordinator_core *c);
void coordinator_finish_attempts(struct coordinator_core *c);

/* ---- coordinator_pilots.c ---- */
struct known_pilot *coordinator_find_pilot(const struct coordinator_core *c, const char *name);
/* NULL if out of memory. */
struct known_pilot *coordinator_add_pilot(struct coordinator_core *c, const char *name);
void coordinator_on_frame(struct coordinator_core *c, const struct coordinator_event *e);
void coordinator_on_disconnected(struct coordinator_core *c, uint64_t connection);
void coordinator_on_checked(struct coordinator_core *c, uint64_t number, int result);
void coordinator_pilot_written(struct coordinator_core *c, uint64_t number, int result);
void coordinator_release(struct coordinator_core *c, struct known_pilot *p);
void coordinator_tell_ready(struct coordinator_core *c, struct known_pilot *p);
void coordinator_step_pilots(struct coordinator_core *c);

/* ---- coordinator_deaths.c ---- */
void coordinator_on_listed(struct coordinator_core *c, const struct slurm_listing *l);
void coordinator_on_outbox(struct coordinator_core *c, const struct coordinator_event *e);
/* When the lease proves the pilot dead. */
uint64_t coordinator_lease_proof_ns(const struct coordinator_core *c, const struct known_pilot *p);
/* The pilot is not declared dead before this time; 0: any time. */
uint64_t coordinator_fence_ns(const struct coordinator_core *c, const struct known_pilot *p);
void coordinator_step_deaths(struct coordinator_core *c);

#endif
