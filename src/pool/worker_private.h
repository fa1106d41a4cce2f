/* SPDX-License-Identifier: MIT */
/*
 * The worker's own memory, for the two files that make it up: worker.c takes
 * tasks and calls hooks, answers leave by worker_answer.c.
 *
 * Answers are published in the order of their tasks: those in hand before
 * `settled` have left, one that is given out of turn waits in its item.
 */
#ifndef POOL_WORKER_PRIVATE_H
#define POOL_WORKER_PRIVATE_H

#include <signal.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "pool/brief.h"
#include "pool/channel.h"
#include "pool/parcel.h"
#include "pool/worker.h"

#define WORDS_MAX 1024

enum answer_kind {
	ANSWER_NONE, /* the hook has not said anything yet */
	ANSWER_RESULT,
	ANSWER_FAILURE,
};

/* A task in hand, and what the hook says about it. */
struct item {
	struct ring_desc desc;
	struct parcel payload; /* where the task came as one */
	enum answer_kind answer;
	struct parcel result; /* where the result is to leave as one */
	void *data;           /* result: in the arena, in the parcel, or on the heap */
	size_t size;
	bool on_heap; /* data is ours to free: an answer out of turn */
	int code;
	char *words;
};

/* See interrupt.h. Only the worker's first thread and its signal handler use it. */
struct interrupt {
	volatile sig_atomic_t allowed; /* process() or process_batch() runs */
	volatile sig_atomic_t calls;   /* gd_*() functions that are running */
	volatile sig_atomic_t noted;   /* a signal arrived during one */
	atomic_int called;             /* on_cancel, for the tasks in hand */
};

struct gd_worker {
	const struct gd_worker_ops *ops;
	void *state; /* setup's */
	struct worker_fds fds;
	struct channel channel;
	const struct brief *brief;
	struct ring out;
	bool owes_notice;      /* a record was published, and the owner perhaps not woken for it */
	uint64_t answered_arm; /* the last of the owner's sleeps that we have ended */

	uint64_t next;       /* sequence number of the first task in hand, else of the next one */
	uint64_t head;       /* of the inbox, when we looked last */
	uint64_t round;      /* that it belongs to */
	uint64_t waited_at;  /* `next` when the inbox was found empty last */
	uint64_t waited_arm; /* and what the owner's `armed` was then */
	size_t in_hand;
	size_t settled; /* of those in hand: their record is published */
	size_t max_batch;
	struct item *items;
	struct gd_bytes *tasks;
	uint64_t now_ns; /* end of the last task, or of the last wait */
	struct clock_cache clock;
	struct interrupt interrupt;

	char words[WORDS_MAX]; /* of gd_worker_fail() in setup, cleanup and process */
};

/* worker_answer.c */

/* Wakes the pool's owner if it sleeps. After a fence: the record must be visible to one whose flag we do not see. */
void worker_notify(struct gd_worker *w);

/* A record without a task, with words for a payload. */
void worker_tell(struct gd_worker *w, enum ring_kind kind, int code, const char *words);

/* A record without a payload. */
void worker_mark(struct gd_worker *w, struct ring_desc desc);

/* The i-th task in hand fails, whatever its hook has said so far. */
void worker_fail_item(struct gd_worker *w, size_t i, int code, const char *words);

/* Publishes the record of the next task in hand: its answer is final. */
void worker_settle(struct gd_worker *w);

#endif
