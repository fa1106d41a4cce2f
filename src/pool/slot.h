/* SPDX-License-Identifier: MIT */
/*
 * A worker as the pool's owner sees it: its channel, its tasks and its state. A slot has one process at a time (a
 * "life"); a replacement gets a new channel.
 *
 * Tasks have sequence numbers within a life: released ≤ completed ≤ begun ≤ head. For tasks before `released`
 * (in.tail), the callback was made and the space is free. For tasks before `completed`, the answer has arrived. Tasks
 * before `begun` were begun, as reported by the worker (the value can be wrong, so it is always bounded by the other
 * two). Tasks before `head` are in its inbox. Answers arrive in this order.
 */
#ifndef POOL_SLOT_H
#define POOL_SLOT_H

#include <errno.h>
#include <string.h>
#include <sys/types.h>

#include "base/clock.h"
#include "gpu_dispatch.h"
#include "pool/binding.h"
#include "pool/channel.h"
#include "pool/tally.h"
#include "pool/task.h"

enum slot_state {
	SLOT_STARTING, /* ordered, or in setup */
	SLOT_READY,
	SLOT_CLOSING, /* asked to clean up and leave */
	SLOT_FINISHED,
	SLOT_OUT,
};

struct slot {
	int index;
	int gpu;
	int device;
	int64_t seed;
	enum slot_state state;
	uint64_t life;
	uint64_t ordered_ns;  /* when the warden was asked for it */
	uint64_t starting_ns; /* since when it is SLOT_STARTING */
	uint64_t loading_ns;  /* total of earlier periods as SLOT_STARTING */
	pid_t pid;

	struct channel channel; /* in is NULL: none */
	int socket;             /* parcels */
	struct ring in;
	uint64_t published; /* records before this one are published, the others soon: see slot_publish() */
	struct task *tasks; /* RING_DEPTH, by sequence number */
	uint64_t serial;    /* of the last record that was written: see RING_SERIAL */
	uint64_t quota;     /* how many tasks it is given in this life: see recycle.c */
	bool recall;        /* tasks that it has not begun were cancelled: see pool_cancel_turn() */
	uint64_t completed;
	uint64_t consumed; /* records of the outbox */
	size_t batch;      /* tasks that it may take at once, as it reported when it was ready */
	bool drafting;     /* a thread is writing into the inbox's next record */
	bool setup_over;   /* it has reported how its setup ended */
	bool cleaned;
	bool ending;        /* its setup was asked to end */
	bool recycled;      /* asked to leave, to be replaced */
	const char *broken; /* how it violated the protocol; it is being killed */
	bool lost_parcel;   /* … by an invalid parcel: the record of the parcel has already failed */

	uint64_t average_ns;    /* recent average of a task's duration; 0: unknown */
	uint64_t last_end_ns;   /* of its last task */
	uint64_t watched;       /* `completed` when the balance check began: see balance.c */
	unsigned failed_setups; /* in a row */
	unsigned idle_deaths;   /* in a row, of lives that were ready and have not begun a task */
	bool was_ready;         /* in any of its lives */
	bool in_setup;          /* has a turn: see setups.c */
	uint64_t waits_since;   /* its place in the line for a turn; 0: it does not wait */
	bool spared;            /* its last worker has ended and was not replaced: see setups.c */
	int start_error;        /* error of the last order to start a process; 0: none */
	int setup_code;
	char setup_words[1024];
	struct gd_result *setup_payload; /* of the failed setup; NULL: none */

	struct tally tally;
	struct gd_worker_stats stats;
};

int slot_init(struct slot *s, int index, const struct binding *binding);
void slot_finish(struct slot *s);

/* Begins the next life, without a channel or tasks. */
void slot_begin_life(struct slot *s);

/* Drops the channel of the life that is over. */
void slot_drop_channel(struct slot *s);

static inline struct task *slot_task(struct slot *s, uint64_t seq)
{
	return &s->tasks[seq % RING_DEPTH];
}

static inline size_t slot_in_flight(const struct slot *s)
{
	return (size_t)(s->in.head - s->completed);
}

/* How many tasks it has begun in this life, bounded by what is possible. */
uint64_t slot_begun(const struct slot *s);

/* With the pool's lock held: marks a task that it has not answered as cancelled. True if it may have begun the task. */
bool slot_cancel(struct slot *s, uint64_t seq);

/* How much work is handed out ahead: enough to hide a round trip, too little to unbalance the workers. */
#define SLOT_AHEAD_NS 1000000

/* Whether it may be given another task: ready, not too much ahead, space for a record. */
static inline bool slot_accepts(const struct slot *s)
{
	if (s->state != SLOT_READY || s->drafting || s->broken || ring_full(&s->in) || s->in.head >= s->quota)
		return false;
	size_t in_flight = slot_in_flight(s);
	return in_flight < s->batch || (s->average_ns > 0 && in_flight * s->average_ns < SLOT_AHEAD_NS);
}

/*
 * Publishes all given tasks to the worker and wakes it. While the worker has plenty to do, slot_give() does not
 * publish; the next answer that is read does, because each publication transfers a cache line in both directions.
 */
void slot_publish(struct slot *s);
/* The same without waking it: returns the result of channel_claim_wake(). */
const _Atomic uint32_t *slot_show(struct slot *s);

/*
 * Gives it a task: copies the payload into its inbox (or sends the parcel), and publishes it, now or soon. -EAGAIN if
 * there is no space now. On success the slot owns the task.
 */
int slot_give(struct slot *s, struct task *t);

/* The same for a payload that was written in place, into space from ring_reserve(). */
void slot_give_written(struct slot *s, struct task *t);

/* A worker with this many unanswered tasks has plenty to do: see slot_publish(). */
#define SLOT_PLENTY 64

/*
 * Writes the record of t, the next task in the table, and publishes it, now or soon. Returns the result of
 * channel_claim_wake().
 */
static inline const _Atomic uint32_t *slot_push(struct slot *s, const struct task *t, const void *data)
{
	bool external = t->place == TASK_PARCEL;
	struct ring_desc *d = ring_take(&s->in, data, external ? 0 : t->size);
	d->kind = RING_TASK;
	d->flags = (uint16_t)((external ? RING_EXTERNAL : 0) | (t->alone ? RING_ALONE : 0));
	d->id = t->id;
	d->size = t->size;
	d->attempt = (uint32_t)t->tries + 1;
	d->code = 0;
	d->start_ns = 0;
	d->limit_ns = (uint64_t)t->timeout_ms * NS_PER_MS;
	s->serial += RING_SERIAL;
	atomic_store_explicit(&d->mark, s->serial, memory_order_release);
	if (slot_in_flight(s) == 1)
		s->stats.since_ns = t->queued_ns;
	/* Published and unanswered: as long as there are any, an answer comes and with it slot_publish(). */
	if (s->published - s->completed < SLOT_PLENTY || s->in.head - s->published >= SLOT_PLENTY / 2)
		return slot_show(s);
	return NULL;
}

/*
 * The same as slot_give() for a new task with the caller's bytes, in the fewest steps: field by field, because clearing
 * the task first would cost more than everything else. -EAGAIN if there is no space now. *ret_wake is for
 * channel_wake().
 */
static inline int slot_give_new(struct slot *s, uint64_t id, void *tag, uint64_t queued_ns, int64_t timeout_ms,
	struct gd_bytes bytes, const _Atomic uint32_t **ret_wake)
{
	void *room = ring_reserve(&s->in, bytes.size);
	if (!room)
		return -EAGAIN;
	if (bytes.size)
		memcpy(room, bytes.data, bytes.size);
	struct task *t = slot_task(s, s->in.head);
	t->id = id;
	t->tag = tag;
	t->queued_ns = queued_ns;
	t->timeout_ms = timeout_ms;
	t->data = room;
	t->size = bytes.size;
	t->parcel.fd = -1;
	t->tries = 0;
	t->avoid = -1;
	t->announced = false;
	t->doomed = false;
	t->alone = false;
	t->cancelled = false;
	t->hole = false;
	atomic_store_explicit(&t->over, false, memory_order_relaxed);
	t->place = TASK_RING;
	*ret_wake = slot_push(s, t, room);
	return 0;
}

/* Updates the averages with a task that has ended. */
static inline void slot_learn(struct slot *s, uint64_t start_ns, uint64_t end_ns)
{
	/* Tasks of a batch end together: measure the time per task. */
	uint64_t from = s->last_end_ns > start_ns ? s->last_end_ns : start_ns;
	uint64_t took = end_ns > from ? end_ns - from : 0;
	s->last_end_ns = end_ns;
	if (s->average_ns == 0)
		s->average_ns = took ? took : 1;
	else
		s->average_ns = s->average_ns - s->average_ns / 8 + took / 8 + 1;
}

#endif
