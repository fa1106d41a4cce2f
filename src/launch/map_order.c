/* SPDX-License-Identifier: MIT */
#include "launch/map_order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 1024

void map_order_finish(struct map_order *o)
{
	for (size_t i = 0; i < o->capacity; i++)
		free(o->ring[i].line);
	free(o->ring);
	*o = (struct map_order){0};
}

static struct map_held *at(const struct map_order *o, uint64_t place)
{
	return &o->ring[place & (o->capacity - 1)];
}

static int grow(struct map_order *o, uint64_t distance)
{
	size_t capacity = o->capacity ? o->capacity : FIRST_CAPACITY;
	while (capacity <= distance)
		capacity *= 2;
	struct map_held *ring = calloc(capacity, sizeof(*ring));
	if (!ring)
		return -ENOMEM;
	for (uint64_t place = o->next; place < o->next + o->capacity; place++)
		ring[place & (capacity - 1)] = *at(o, place);
	free(o->ring);
	o->ring = ring;
	o->capacity = capacity;
	return 0;
}

int map_order_put(struct map_order *o, uint64_t place, const struct map_ended *ended, const char *line, size_t size)
{
	uint64_t distance = place - o->next;
	if (distance >= o->capacity && grow(o, distance) < 0)
		return -ENOMEM;
	char *copy = malloc(size);
	if (!copy)
		return -ENOMEM;
	*at(o, place) = (struct map_held){.line = memcpy(copy, line, size), .size = size, .ended = *ended};
	o->held++;
	o->bytes += size;
	return 0;
}

bool map_order_take(struct map_order *o, struct map_held *ret)
{
	if (o->held == 0 || !at(o, o->next)->line)
		return false;
	*ret = *at(o, o->next);
	*at(o, o->next) = (struct map_held){0};
	o->next++;
	o->held--;
	o->bytes -= ret->size;
	return true;
}
