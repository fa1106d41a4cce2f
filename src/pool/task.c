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

int backlog_init(struct backlog *b, size_t limit)
{
	*b = (struct backlog){.limit = limit, .room = limit};
	b->tasks = calloc(limit, sizeof(*b->tasks));
	return b->tasks ? 0 : -ENOMEM;
}

void backlog_finish(struct backlog *b)
{
	for (struct task *t; (t = backlog_front(b)); backlog_pop(b))
		task_finish(t);
	free(b->tasks);
	b->tasks = NULL;
}

static struct task *entry(const struct backlog *b, size_t i)
{
	return &b->tasks[(b->first + i) % b->room];
}

void backlog_push(struct backlog *b, const struct task *t)
{
	assert(b->entries < b->room);
	if (b->entries > 0 && entry(b, b->entries - 1)->id > t->id)
		b->unsorted = b->entries;
	*entry(b, b->entries) = *t;
	b->entries++;
}

void backlog_push_front(struct backlog *b, const struct task *t)
{
	assert(b->entries < b->room);
	bool sorted = b->entries == 0 || (b->unsorted == 0 && t->id < entry(b, 0)->id);
	b->unsorted = sorted ? 0 : b->unsorted + 1;
	b->first = (b->first + b->room - 1) % b->room;
	b->tasks[b->first] = *t;
	b->entries++;
}

struct task *backlog_front(struct backlog *b)
{
	return b->entries ? &b->tasks[b->first] : NULL;
}

static void drop_front(struct backlog *b)
{
	b->first = (b->first + 1) % b->room;
	b->entries--;
	if (b->unsorted > 0)
		b->unsorted--;
}

/* Drops the holes at both ends. */
static void trim(struct backlog *b)
{
	for (; b->entries > 0 && entry(b, 0)->hole; b->holes--)
		drop_front(b);
	for (; b->entries > 0 && entry(b, b->entries - 1)->hole; b->holes--)
		b->entries--;
	if (b->unsorted > b->entries)
		b->unsorted = b->entries;
}

void backlog_pop(struct backlog *b)
{
	assert(b->entries > 0);
	drop_front(b);
	if (b->holes > 0)
		trim(b);
}

/* ---- Removing ----------------------------------------------------------- */

static size_t find(const struct backlog *b, uint64_t id)
{
	for (size_t i = 0; i < b->unsorted; i++)
		if (entry(b, i)->id == id)
			return i;
	size_t low = b->unsorted, high = b->entries;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (entry(b, middle)->id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < b->entries && entry(b, low)->id == id ? low : b->entries;
}

/* Closes the holes; the entries move to the beginning of `to`, which may be b->tasks if that is where they are. */
static void close_holes(struct backlog *b, struct task *to, size_t room)
{
	size_t live = 0, unsorted = 0;
	for (size_t i = 0; i < b->entries; i++) {
		const struct task *t = entry(b, i);
		if (t->hole)
			continue;
		unsorted += i < b->unsorted;
		to[(to == b->tasks ? b->first + live : live) % room] = *t;
		live++;
	}
	if (to != b->tasks) {
		free(b->tasks);
		b->first = 0;
	}
	b->tasks = to;
	b->room = room;
	b->entries = live;
	b->unsorted = unsorted;
	b->holes = 0;
}

/*
 * Keeps space for `limit` tasks in addition to the holes. With twice that space, holes are closed only after as many
 * removals as there may be tasks.
 */
static void keep_room(struct backlog *b)
{
	if (b->holes <= b->room - b->limit)
		return;
	struct task *more = b->room == b->limit ? calloc(2 * b->limit, sizeof(*more)) : NULL;
	close_holes(b, more ? more : b->tasks, more ? 2 * b->limit : b->room);
}

bool backlog_has(struct backlog *b, uint64_t id)
{
	for (size_t i = 0; i < b->entries; i++)
		if (!entry(b, i)->hole && entry(b, i)->id == id)
			return true;
	return false;
}

bool backlog_remove(struct backlog *b, uint64_t id, struct task *ret)
{
	size_t i = find(b, id);
	if (i == b->entries || entry(b, i)->hole)
		return false;
	*ret = *entry(b, i);
	entry(b, i)->hole = true;
	b->holes++;
	trim(b);
	keep_room(b);
	return true;
}
