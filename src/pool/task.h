/* SPDX-License-Identifier: MIT */
/* A task in the process of the pool's owner, and the queue of tasks that no worker has. */
#ifndef POOL_TASK_H
#define POOL_TASK_H

#include <stdatomic.h>
#include <stdbool.h>

#include "gpu_dispatch.h"
#include "pool/parcel.h"

enum task_place {
	TASK_HEAP,   /* data is malloc()ed */
	TASK_RING,   /* data is in the inbox of the worker that has it */
	TASK_PARCEL, /* data is the parcel's */
};

struct task {
	uint64_t id;
	void *tag;
	uint64_t queued_ns;
	int64_t timeout_ms; /* 0: none */
	void *data;
	size_t size;
	struct parcel parcel;
	int tries;        /* attempts that are over */
	int avoid;        /* the slot where the last of them failed, or -1 */
	int on_gpu;       /* number of a GPU, plus one: only for its workers; 0: for any */
	bool announced;   /* on_task_start was called for the current attempt */
	bool doomed;      /* its payload is lost, because memory ran out: ends as GD_FAILURE_NOT_CARRIED */
	bool alone;       /* processed alone: an earlier batch with this task ran out of time */
	bool cancelled;   /* by gd_pool_cancel(): not retried */
	bool hole;        /* in a backlog: the task was removed from here */
	atomic_bool over; /* in a slot's table: the task has ended, or is in another place */
	enum task_place place;
};

/* Frees the payload, which must not be in a ring: there, the task does not own it. */
void task_free(struct task *t);
/* The same for any payload. */
static inline void task_finish(struct task *t)
{
	if (t->place != TASK_RING)
		task_free(t);
	t->data = NULL;
	t->place = TASK_HEAP;
}

/* Takes the payload out of a ring that is about to be used for something else. */
int task_detach(struct task *t);

/*
 * Tasks in the order of their ids, except that those given back come first. Holds at
 * most `limit` tasks.
 *
 * A task that is removed from the middle leaves a hole. There is never a hole at either end, so a queue without
 * tasks has no entries at all. After the first `unsorted` entries, all are in the order of their ids, holes included.
 */
struct backlog {
	struct task *tasks;
	size_t limit;
	size_t room; /* for entries */
	size_t first;
	size_t entries; /* tasks and holes */
	size_t holes;
	size_t unsorted;
};

/* How many tasks there are. */
static inline size_t backlog_live(const struct backlog *b)
{
	return b->entries - b->holes;
}

static inline bool backlog_is_empty(const struct backlog *b)
{
	return b->entries == 0;
}

int backlog_init(struct backlog *b, size_t limit);
void backlog_finish(struct backlog *b);
void backlog_push(struct backlog *b, const struct task *t);
void backlog_push_front(struct backlog *b, const struct task *t);
struct task *backlog_front(struct backlog *b); /* NULL if there is none */
void backlog_pop(struct backlog *b);

/* Whether the task is in the backlog; searches unsorted entries, too. */
bool backlog_has(struct backlog *b, uint64_t id);
/* Removes the task with this id, wherever it is, into *ret. False if it is not there. */
bool backlog_remove(struct backlog *b, uint64_t id, struct task *ret);

#endif
