/* SPDX-License-Identifier: MIT */
/* Which GPU gets which file, and how even the shares are. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "launch/workload.h"

/* A heap of GPUs, the one with the least on top; ties to the lower number. */
struct load {
	double weight;
	size_t gpu;
};

static bool lighter(const struct load *a, const struct load *b)
{
	return a->weight != b->weight ? a->weight < b->weight : a->gpu < b->gpu;
}

static void sink(struct load *heap, size_t count)
{
	size_t at = 0;
	for (;;) {
		size_t least = at;
		for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
			if (lighter(&heap[child], &heap[least]))
				least = child;
		if (least == at)
			return;
		struct load moved = heap[at];
		heap[at] = heap[least];
		heap[least] = moved;
		at = least;
	}
}

static int share_longest(
	const struct gd_found *files, const size_t *order, size_t count, size_t num_gpus, size_t *ret_gpus)
{
	cleanup_(freep) struct load *heap = calloc(num_gpus, sizeof(*heap));
	if (!heap)
		return -ENOMEM;
	for (size_t g = 0; g < num_gpus; g++)
		heap[g].gpu = g;
	double rate = workload_seconds_per_byte(files, count);
	for (size_t i = 0; i < count; i++) {
		ret_gpus[order[i]] = heap[0].gpu;
		heap[0].weight += workload_weight(&files[order[i]], rate);
		sink(heap, num_gpus);
	}
	return 0;
}

int gd_share_out(const struct gd_found *files, size_t count, enum gd_balance balance, size_t num_gpus, size_t *ret_gpus)
{
	if (num_gpus == 0)
		return -EINVAL;
	cleanup_(freep) size_t *order = calloc(count ? count : 1, sizeof(*order));
	if (!order)
		return -ENOMEM;
	int r = gd_queue_order(files, count, balance, order);
	if (r < 0)
		return r;
	if (balance == GD_BALANCE_LONGEST_FIRST)
		return share_longest(files, order, count, num_gpus, ret_gpus);
	for (size_t i = 0; i < count; i++)
		ret_gpus[order[i]] = balance == GD_BALANCE_AS_FOUND
					     ? (size_t)((double)i * (double)num_gpus / (double)count)
					     : i % num_gpus;
	return 0;
}

double gd_share_stats(
	const struct gd_found *files, const size_t *gpus, size_t count, size_t num_gpus, struct gd_share *ret)
{
	double rate = workload_seconds_per_byte(files, count);
	double total = 0, most = 0;
	memset(ret, 0, num_gpus * sizeof(*ret));
	for (size_t i = 0; i < count; i++) {
		struct gd_share *s = &ret[gpus[i]];
		s->files++;
		s->bytes += files[i].size_bytes;
		s->audio_seconds += files[i].seconds >= 0 ? files[i].seconds : 0;
		s->load += workload_weight(&files[i], rate);
	}
	for (size_t g = 0; g < num_gpus; g++) {
		total += ret[g].load;
		most = ret[g].load > most ? ret[g].load : most;
	}
	for (size_t g = 0; total > 0 && g < num_gpus; g++)
		ret[g].load /= total;
	return total > 0 ? most * (double)num_gpus / total - 1 : 0;
}
