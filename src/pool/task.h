/* SPDX-License-Identifier: MIT */
/* A task in the process of the pool's owner, and the queue of tasks that no worker has. */
#ifndef POOL_TASK_H
#define POOL_TASK_H

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
	int tries;      /* attempts that are over */
	int avoid;      /* the slot where the last of them failed, or -1 */
	bool announced; /* on_task_start was made for the present attempt */
	bool doomed;    /* its payload is lost, for want of memory: ends as GD_FAILURE_NOT_CARRIED */
	enum task_place place;
};

/* Frees what it owns; in a ring that is nothing. */
void task_free(struct task *t); /* … where it does own something */
static inline void task_finish(struct task *t)
{
	if (t->place != TASK_RING)
		task_free(t);
	t->data = NULL;
	t->place = TASK_HEAP;
}

/* Takes the payload out of a ring that is about to be used for something else. */
int task_detach(struct task *t);

/* Tasks in the order of their ids, except that those given back come first. Capacity is fixed. */
struct backlog {
	struct task *tasks;
	size_t room;
	size_t first;
	size_t count;
};

int backlog_init(struct backlog *b, size_t room);
void backlog_finish(struct backlog *b);
void backlog_push(struct backlog *b, const struct task *t);
void backlog_push_front(struct backlog *b, const struct task *t);
struct task *backlog_front(struct backlog *b); /* NULL if there is none */
void backlog_pop(struct backlog *b);

#endif
