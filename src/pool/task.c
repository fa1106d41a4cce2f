/* SPDX-License-Identifier: MIT */
#include "pool/task.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void task_free(struct task *t)
{
	if (t->place == TASK_HEAP)
		free(t->data);
	else
		parcel_finish(&t->parcel);
}

int task_detach(struct task *t)
{
	if (t->place != TASK_RING)
		return 0;
	void *data = malloc(t->size ? t->size : 1);
	if (!data)
		return -ENOMEM;
	if (t->size)
		memcpy(data, t->data, t->size);
	t->data = data;
	t->place = TASK_HEAP;
	return 0;
}

int backlog_init(struct backlog *b, size_t room)
{
	*b = (struct backlog){.room = room};
	b->tasks = calloc(room, sizeof(*b->tasks));
	return b->tasks ? 0 : -ENOMEM;
}

void backlog_finish(struct backlog *b)
{
	for (struct task *t; (t = backlog_front(b)); backlog_pop(b))
		task_finish(t);
	free(b->tasks);
	b->tasks = NULL;
}

void backlog_push(struct backlog *b, const struct task *t)
{
	assert(b->count < b->room);
	b->tasks[(b->first + b->count) % b->room] = *t;
	b->count++;
}

void backlog_push_front(struct backlog *b, const struct task *t)
{
	assert(b->count < b->room);
	b->first = (b->first + b->room - 1) % b->room;
	b->tasks[b->first] = *t;
	b->count++;
}

struct task *backlog_front(struct backlog *b)
{
	return b->count ? &b->tasks[b->first] : NULL;
}

void backlog_pop(struct backlog *b)
{
	assert(b->count > 0);
	b->first = (b->first + 1) % b->room;
	b->count--;
}
