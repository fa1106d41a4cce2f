/* SPDX-License-Identifier: MIT */
/* For gpuq map --ordered: keeps the lines of items that ended before an earlier one. Start from {0}. */
#ifndef LAUNCH_MAP_ORDER_H
#define LAUNCH_MAP_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launch/map_record.h"

struct map_held {
	char *line; /* NULL: its item has not ended */
	size_t size;
	struct map_ended ended;
};

struct map_order {
	struct map_held *ring; /* by place, modulo capacity */
	size_t capacity;       /* a power of two, or 0 */
	uint64_t next;         /* place that comes next */
	uint64_t held;
	uint64_t bytes; /* of held lines */
};

void map_order_finish(struct map_order *o);

/* Places are 0, 1, 2… in the order of the input. Copies the line. 0 or -ENOMEM. */
int map_order_put(struct map_order *o, uint64_t place, const struct map_ended *ended, const char *line, size_t size);
/* The next line; release it with free(). False: its item has not ended. */
bool map_order_take(struct map_order *o, struct map_held *ret);

#endif
