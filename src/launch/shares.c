/* SPDX-License-Identifier: MIT */
/* Which GPU gets which file, and how even the shares are. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/sized.h"
#include "launch/workload.h"

SIZED_NO_TAIL(gd_share, imbalance);

/* A heap of GPUs: the GPU with the least work is on top; of several, the one with the fewest files (empty files are no
 * work), then the one with the lowest number. */
struct load {
	double weight;
	size_t files;
	size_t gpu;
};

static bool lighter(const struct load *a, const struct load *b)
{
	if (a->weight != b->weight)
		return a->weight < b->weight;
	return a->files != b->files ? a->files < b->files : a->gpu < b->gpu;
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
	const struct gd_found *const *files, const size_t *order, size_t count, size_t num_gpus, size_t *ret_gpus)
{
	cleanup_(freep) struct load *heap = calloc(num_gpus, sizeof(*heap));
	if (!heap)
		return -ENOMEM;
	for (size_t g = 0; g < num_gpus; g++)
		heap[g].gpu = g;
	double rate = workload_seconds_per_byte(files, count);
	for (size_t i = 0; i < count; i++) {
		ret_gpus[order[i]] = heap[0].gpu;
		heap[0].weight += workload_weight(files[order[i]], rate);
		heap[0].files++;
		sink(heap, num_gpus);
	}
	return 0;
}

int gd_balance_share(
	const struct gd_found *const *files, size_t count, enum gd_balance balance, size_t num_gpus, size_t *ret_gpus)
{
	if (num_gpus == 0)
		return -EINVAL;
	cleanup_(freep) size_t *order = calloc(count ? count : 1, sizeof(*order));
	if (!order)
		return -ENOMEM;
	int r = gd_balance_order(files, count, balance, order);
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

int gd_share_stats(const struct gd_found *const *files, const size_t *gpus, size_t count, size_t num_gpus, size_t gpu,
	struct gd_share *ret, size_t size)
{
	if (gpu >= num_gpus || found_check(files, count) < 0)
		return -EINVAL;
	cleanup_(freep) double *loads = calloc(num_gpus, sizeof(*loads));
	if (!loads)
		return -ENOMEM;
	double rate = workload_seconds_per_byte(files, count);
	double total = 0, most = 0;
	struct gd_share share = {.size = sizeof(share)};
	for (size_t i = 0; i < count; i++) {
		if (gpus[i] >= num_gpus)
			return -EINVAL;
		loads[gpus[i]] += workload_weight(files[i], rate);
		if (gpus[i] != gpu)
			continue;
		share.files++;
		share.bytes += files[i]->size_bytes;
		share.audio_seconds += found_has_seconds(files[i]) ? files[i]->seconds : 0;
	}
	for (size_t g = 0; g < num_gpus; g++) {
		total += loads[g];
		most = loads[g] > most ? loads[g] : most;
	}
	share.load = total > 0 ? loads[gpu] / total : 0;
	share.imbalance = total > 0 ? most * (double)num_gpus / total - 1 : 0;
	sized_write(ret, size, &share, sizeof(share));
	return 0;
}
