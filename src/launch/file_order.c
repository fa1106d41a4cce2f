/* SPDX-License-Identifier: MIT */
/* The order in which files are processed, and the names of the strategies. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "launch/workload.h"

static const char *const names[] = {
	[GD_BALANCE_LONGEST_FIRST] = "longest-first",
	[GD_BALANCE_BY_SIZE] = "size",
	[GD_BALANCE_ROUND_ROBIN] = "round-robin",
	[GD_BALANCE_AS_FOUND] = "none",
};

#define NUM_BALANCES (sizeof(names) / sizeof(*names))

const char *gd_balance_name(enum gd_balance balance)
{
	return (unsigned)balance < NUM_BALANCES ? names[balance] : "?";
}

int gd_balance_parse(const char *name, enum gd_balance *ret)
{
	for (size_t i = 0; i < NUM_BALANCES; i++)
		if (strcmp(names[i], name) == 0) {
			*ret = (enum gd_balance)i;
			return 0;
		}
	return -EINVAL;
}

/* ---- The order of work --------------------------------------------------- */

struct weighed {
	double weight;
	size_t index;
};

static int heavier_first(const void *x, const void *y)
{
	const struct weighed *a = x, *b = y;
	if (a->weight != b->weight)
		return a->weight > b->weight ? -1 : 1;
	return a->index < b->index ? -1 : 1;
}

int gd_balance_order(const struct gd_found *const *files, size_t count, enum gd_balance balance, size_t *ret_order)
{
	if ((unsigned)balance >= NUM_BALANCES || found_check(files, count) < 0)
		return -EINVAL;
	if (balance == GD_BALANCE_ROUND_ROBIN || balance == GD_BALANCE_AS_FOUND) {
		for (size_t i = 0; i < count; i++)
			ret_order[i] = i;
		return 0;
	}
	cleanup_(freep) struct weighed *list = calloc(count ? count : 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	double rate = balance == GD_BALANCE_LONGEST_FIRST ? workload_seconds_per_byte(files, count) : 0;
	for (size_t i = 0; i < count; i++)
		list[i] = (struct weighed){workload_weight(files[i], rate), i};
	qsort(list, count, sizeof(*list), heavier_first);
	for (size_t i = 0; i < count; i++)
		ret_order[i] = list[i].index;
	return 0;
}

int gd_share_order(const size_t *gpus, size_t count, size_t num_gpus, size_t *ret_order)
{
	/* The number of files that each GPU has had so far: the turn of its next file. */
	cleanup_(freep) size_t *turn = calloc(num_gpus ? num_gpus : 1, sizeof(*turn));
	cleanup_(freep) struct weighed *list = calloc(count ? count : 1, sizeof(*list));
	if (!turn || !list)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		if (gpus[i] >= num_gpus)
			return -EINVAL;
	for (size_t i = 0; i < count; i++)
		list[i] = (struct weighed){-(double)turn[gpus[i]]++, i};
	/* Within a turn, order by GPU, not by name. */
	for (size_t i = 0; i < count; i++)
		list[i].weight -= (double)gpus[i] / (double)num_gpus;
	qsort(list, count, sizeof(*list), heavier_first);
	for (size_t i = 0; i < count; i++)
		ret_order[i] = list[i].index;
	return 0;
}
