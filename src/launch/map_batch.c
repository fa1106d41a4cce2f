/* SPDX-License-Identifier: MIT */
#include "launch/map_batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/json_put.h"
#include "launch/items_task.h"

struct map_batch *map_batch_create(void)
{
	struct map_batch *b = calloc(1, sizeof(*b));
	if (b)
		items_task_begin(&b->task);
	return b;
}

void map_batch_clear(struct map_batch *b)
{
	text_clear(&b->task);
	items_task_begin(&b->task);
	*b = (struct map_batch){.items = b->items, .capacity = b->capacity, .task = b->task};
}

void map_batch_destroy(struct map_batch *b)
{
	if (!b)
		return;
	text_finish(&b->task);
	free(b->items);
	free(b);
}

/* In a JSON value, carriage returns occur only between tokens. Line readers of some languages end a line there. */
static void replace_returns(char *json, size_t size)
{
	for (char *p = json, *end = json + size; (p = memchr(p, '\r', (size_t)(end - p)));)
		*p = ' ';
}

int map_batch_add(struct map_batch *b, const struct map_item *item, const char *text, size_t size, bool quote)
{
	if (array_reserve(b->items, &b->capacity, b->count + 1) < 0)
		return -ENOMEM;
	size_t comma = b->count > 0;
	size_t before = b->task.length;
	if (quote)
		json_put_bytes(&b->task, NULL, text, size);
	else
		json_put_raw(&b->task, NULL, text, size);
	if (text_error(&b->task))
		return -ENOMEM;
	replace_returns(b->task.data + before, b->task.length - before);
	struct map_item *added = &b->items[b->count++];
	*added = *item;
	added->offset = before + comma;
	added->size = b->task.length - before - comma;
	return 0;
}

int map_batch_seal(struct map_batch *b)
{
	if (!b->sealed)
		items_task_seal(&b->task, (uint32_t)b->count, b->alone);
	b->sealed = true;
	return text_error(&b->task);
}

struct map_batch *map_batch_part(const struct map_batch *b, size_t first, size_t count)
{
	struct map_batch *part = map_batch_create();
	int r = part ? 0 : -ENOMEM;
	for (size_t i = first; r == 0 && i < first + count; i++) {
		const struct map_item *item = &b->items[i];
		r = map_batch_add(part, item, b->task.data + item->offset, item->size, false);
	}
	if (r < 0) {
		map_batch_destroy(part);
		return NULL;
	}
	part->deaths = b->deaths;
	part->alone = b->alone;
	part->batch_before = b->batch_before;
	return part;
}
