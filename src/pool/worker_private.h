/* SPDX-License-Identifier: MIT */
/*
 * The worker's own memory, shared by its source files: worker.c takes tasks and calls hooks, worker_answer.c sends
 * answers, worker_failure.c describes failures, worker_message.c sends messages.
 *
 * Answers are published in the order of their tasks. The answers of tasks in hand before `settled` are published; an
 * answer that is given out of turn waits in its item. The answer whose turn it is can already be in the arena before
 * its record is published. Until then, its space in the arena and a place in the ring are reserved for it
 * (worker_result_room()).
 */
#ifndef POOL_WORKER_PRIVATE_H
#define POOL_WORKER_PRIVATE_H

#include <signal.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "pool/brief.h"
#include "pool/channel.h"
#include "pool/parcel.h"
#include "pool/settings.h"
#include "pool/worker.h"

#define WORDS_MAX 1024 /* of a failure's message, with the NUL */

enum answer_kind {
	ANSWER_NONE, /* the hook has not answered yet */
	ANSWER_RESULT,
	ANSWER_FAILURE,
};

/* Why a hook failed: a message for people, and bytes that go with it. */
struct failure {
	bool given;
	char words[WORDS_MAX];
	void *data; /* on the heap, or the parcel's; NULL: none */
	size_t size;
	struct parcel parcel;
};

/* A task in hand, and the hook's answer to it. */
struct item {
	struct ring_desc desc;
	struct parcel payload; /* if the task arrived as a parcel */
	enum answer_kind answer;
	struct parcel result; /* if the result is sent as a parcel */
	void *data;           /* result: in the arena, in the parcel, or on the heap */
	size_t size;
	bool on_heap; /* we free data: an answer out of turn */
	int code;
	struct failure *failure; /* NULL: out of memory */
	bool owns_failure;       /* otherwise the hook's failure, for the whole batch */
};

/* The hook that runs and can be interrupted. */
enum interrupt_hook {
	INTERRUPT_NONE,
	INTERRUPT_TASKS, /* process() or process_batch() */
	INTERRUPT_SETUP,
};

/* See interrupt.h. Only the worker's first thread and its signal handler use it. */
struct interrupt {
	volatile sig_atomic_t allowed; /* enum interrupt_hook */
	volatile sig_atomic_t calls;   /* gd_*() functions that are running */
	volatile sig_atomic_t noted;   /* a signal arrived during one */
	atomic_int called;             /* on_cancel, for the tasks in hand, or on_setup_cancel */
};

struct gd_worker {
	const struct gd_worker_ops *ops;
	void *state; /* returned by setup */
	struct worker_fds fds;
	struct channel channel;
	const struct brief *brief;
	const struct settings *settings;
	struct ring out;
	bool owes_notice;      /* a record was published, and the owner perhaps not woken for it */
	uint64_t answered_arm; /* the last of the owner's sleeps that we have ended */

	uint64_t next;         /* sequence number of the first task in hand, else of the next one */
	uint64_t head;         /* head of the inbox at the last check */
	uint64_t round;        /* the round that `head` belongs to */
	uint64_t waited_at;    /* `next` when the inbox was found empty last */
	uint64_t waited_waits; /* the owner's `waits` at that time */
	long nap_ns;           /* the length of the next nap */
	bool cleaning;         /* cleanup has begun */
	size_t in_hand;
	size_t settled; /* how many tasks in hand have a published record */
	size_t max_batch;
	struct item *items;
	struct gd_bytes *tasks;
	uint64_t now_ns; /* end of the last task, or of the last wait */
	struct clock_cache clock;
	struct interrupt interrupt;

	uint64_t parcels_until; /* records of the outbox: the last message that is a parcel is among them */
	struct failure failure; /* of the hook that runs: gd_worker_fail() */
};

/* worker_answer.c */

/* Wakes the pool's owner if it sleeps. After a fence: if we do not see the owner's flag, the owner must see the record.
 */
void worker_notify_now(struct gd_worker *w, uint64_t arm);
static inline void worker_notify(struct gd_worker *w)
{
	w->owes_notice = false;
	uint64_t arm = atomic_load_explicit(&w->channel.in->armed, memory_order_relaxed);
	if (arm != 0 && arm != w->answered_arm)
		worker_notify_now(w, arm);
}

/* Before every wait. */
static inline void worker_before_wait(struct gd_worker *w)
{
	if (w->ops->on_wait)
		w->ops->on_wait(w);
}

/* Room in the arena, and in the ring, for the next record. Waits while the callbacks are behind. */
void *worker_room(struct gd_worker *w, size_t size);

/* Waits until all records before `until` were consumed and `places` more fit into the ring. */
void worker_wait_for_places(struct gd_worker *w, uint64_t until, size_t places);

/* Publishes a record at `data`, with `in_arena` bytes of the arena; its offset is filled in. */
void worker_publish(struct gd_worker *w, const void *data, size_t in_arena, struct ring_desc desc);

/* The answer whose turn it is, if it is in the arena and not yet published; otherwise NULL. */
void *worker_result_room(struct gd_worker *w);

/* A record without a task, with the failure of the hook. */
void worker_tell(struct gd_worker *w, enum ring_kind kind, int code);

/* Sends a parcel; waits while the socket is full, with the task's clock stopped. */
int worker_send_parcel(struct gd_worker *w, const struct parcel *parcel);

/* A record without a payload. */
void worker_mark(struct gd_worker *w, struct ring_desc desc);

/*
 * The i-th task in hand fails, regardless of the answer of its hook so far. `failure` is the hook's own (w->failure),
 * or belongs to the item from now on; NULL: only the code is known.
 */
void worker_fail_item(struct gd_worker *w, size_t i, int code, struct failure *failure);

/* In a batch, answers leave as soon as it is their turn. */
void worker_settle_answered(struct gd_worker *w);

/* Publishes the record of the next task in hand: its answer is final. */
void worker_settle(struct gd_worker *w);

/* worker_failure.c */

/* A failure with a message and without bytes; NULL: no memory. */
struct failure *failure_new(const char *format, ...) GD_PRINTF(1, 2);
void failure_free(struct failure *f);

/* Discards the failure. */
void failure_clear(struct failure *f);

/* Its bytes, `size` of them, could not be kept or sent: the message states this instead. */
void failure_lose_bytes(struct failure *f, size_t size, int error);

/* The failure of a cancelled task whose hook gave no answer. */
struct failure *failure_cancelled(struct failure *f);

/*
 * The code of a hook that returned a value other than 0: a negative errno value. If it returned a positive value and
 * gave no message, the message explains that.
 */
int failure_of_hook(struct failure *f, const char *hook, int returned);

#endif
