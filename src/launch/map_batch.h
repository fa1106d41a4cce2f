/* SPDX-License-Identifier: MIT */
/* Items that go to a worker in one message, and their state. */
#ifndef LAUNCH_MAP_BATCH_H
#define LAUNCH_MAP_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

struct map_item {
	uint64_t number; /* line number */
	uint64_t place;  /* index among the items of this run */
	uint64_t bytes;  /* size of its line, for progress */
	uint32_t check;
	uint32_t attempts;   /* failed attempts */
	size_t offset, size; /* of its JSON text in the task */
};

struct map_batch {
	struct map_batch *next; /* in a list */
	struct map_item *items;
	size_t count, capacity;
	struct text task; /* see items_task.h */
	int deaths;       /* workers that ended because of it */
	bool alone;       /* no other message is sent with it */
	bool sealed;
	size_t batch_before; /* map.batch before this message, or the one it is a part of, lowered it; 0: not lowered */
};

struct map_batch *map_batch_create(void);
/* Resets the batch, but keeps its memory. */
void map_batch_clear(struct map_batch *b);
void map_batch_destroy(struct map_batch *b);

/* Adds an item and sets its offset and size. text: its JSON, or with `quote`, plain text to become a JSON string. */
int map_batch_add(struct map_batch *b, const struct map_item *item, const char *text, size_t size, bool quote);
/* Completes the task. 0 or -ENOMEM. */
int map_batch_seal(struct map_batch *b);
/* A new batch with items first…first+count of another. NULL: no memory. */
struct map_batch *map_batch_part(const struct map_batch *b, size_t first, size_t count);

#endif
