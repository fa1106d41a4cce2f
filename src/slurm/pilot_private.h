/* SPDX-License-Identifier: MIT */
/* The state of a pilot's core. Only pilot_core.c, pilot_attempts.c and pilot_connection.c include this. */
#ifndef SLURM_PILOT_PRIVATE_H
#define SLURM_PILOT_PRIVATE_H

#include "base/clock.h"
#include "slurm/attempt_table.h"
#include "slurm/pilot_core.h"

/* Heartbeats whose sending time is remembered; an answer to an older one renews nothing. */
#define HEARTBEATS 64

enum link_state {
	LINK_NONE,
	LINK_CONNECTING,
	LINK_GREETED, /* the hello was sent */
	LINK_WELCOMED,
};

enum stage {
	STAGE_STARTING, /* PILOT_BEGIN is out */
	STAGE_RUNNING,
	STAGE_HELD,  /* ended; the end is held back */
	STAGE_ENDED, /* recorded; not yet acknowledged */
};

struct pilot_attempt {
	struct attempt_id id;
	enum stage stage;
	struct frame_end end;
	uint64_t release_ns; /* from then on the end is certain */
	uint64_t batch_ns;   /* when it is released, with all others that are certain */
};

/* An action with the memory that it points to. */
struct queued_action {
	struct queued_action *next;
	struct pilot_action action;
	struct frame frame;
	struct frame_grant grant;
	struct frame_end end;
	char memory[];
};

struct pilot_core {
	struct pilot_settings settings;
	struct frame_gpu *gpus;
	bool sample_is_new;
	uint64_t now_ns;
	int error;

	enum link_state link;
	uint64_t connection;
	uint64_t session;
	uint64_t next_connect_ns, heard_ns;
	uint64_t hello_ns; /* when the hello of the current connection was sent */

	uint64_t epoch; /* 0: this pilot was never welcomed */
	uint64_t lease_end_ns;
	int64_t max_lease_ms;
	uint64_t silence_ns, heartbeat_ns;
	uint64_t heartbeat, next_heartbeat_ns;
	uint64_t sent_ns[HEARTBEATS]; /* by the heartbeat's number */
	uint64_t armed_ns;

	bool ending, released, left;
	uint64_t begun_ns, ending_ns;
	struct attempt_table seen;
	struct pilot_attempt *attempts;
	size_t num_attempts, attempts_capacity;
	struct queued_action *first, **last, *given;
};

/* ---- pilot_core.c ---- */
struct queued_action *pilot_push(struct pilot_core *c, enum pilot_action_kind kind, size_t memory);
struct frame *pilot_push_frame(struct pilot_core *c, enum frame_kind kind, size_t memory);
/* Sends only in a welcomed session; without one, the next hello conveys the state. */
struct frame *pilot_answer(struct pilot_core *c, enum frame_kind kind);
/* sent_ns: when the message that the coordinator answered was sent. */
void pilot_renew(struct pilot_core *c, uint64_t sent_ns, int64_t lease_ms);
bool pilot_has_lease(const struct pilot_core *c);
int64_t pilot_remaining_ms(const struct pilot_core *c);

/* ---- pilot_attempts.c ---- */
void pilot_on_grant(struct pilot_core *c, const struct frame_grant *g);
void pilot_on_cancel(struct pilot_core *c, const struct frame_cancel *f);
void pilot_on_started(struct pilot_core *c, const struct pilot_event *e);
void pilot_on_not_started(struct pilot_core *c, const struct pilot_event *e);
void pilot_on_exited(struct pilot_core *c, const struct pilot_exit *e);
void pilot_on_end_ack(struct pilot_core *c, struct attempt_id id);
void pilot_send_end(struct pilot_core *c, const struct pilot_attempt *a);
/* Releases ends that the pilot's own end certainly did not cause. */
void pilot_release_held(struct pilot_core *c);
/* When held ends must be released; UINT64_MAX: there are none. */
uint64_t pilot_next_batch_ns(const struct pilot_core *c);
/* Slurm, or the clock, ends this pilot. Attempts that ended just before ended for the same reason. */
void pilot_begin_ending(struct pilot_core *c);

/* ---- pilot_connection.c ---- */
void pilot_disconnect(struct pilot_core *c, bool close);
void pilot_send_hello(struct pilot_core *c, bool lock_is_free);
void pilot_on_frame(struct pilot_core *c, const struct pilot_event *e);
uint64_t pilot_silence_limit_ns(const struct pilot_core *c);
void pilot_step_connection(struct pilot_core *c);

#endif
