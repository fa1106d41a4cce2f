/* SPDX-License-Identifier: MIT */
/* The order in which files wait for workers, and the GPU on which they run. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "launch/launcher_private.h"

static bool is_placed(const struct gd_launch_options *o)
{
	return o->strategy || o->balance == GD_BALANCE_ROUND_ROBIN;
}

/* Continues dealing out at the GPU after the last one. */
static int deal_out(struct gd_launcher *l, size_t count, size_t *gpus)
{
	for (size_t k = 0; k < count; k++)
		gpus[k] = l->dealt++ % l->gpus->count;
	return 0;
}

/* A strategy, or dealing out in turn, decides on which GPU a file runs. `order` is a buffer. */
static int place_files(
	struct gd_launcher *l, const struct gd_found *const *files, const size_t *numbers, size_t count, size_t *order)
{
	const struct gd_launch_options *o = &l->options;
	size_t num_gpus = l->gpus->count;
	cleanup_(freep) size_t *gpus = calloc(count + 1, sizeof(*gpus));
	cleanup_(freep) size_t *gpus_in_order = calloc(count + 1, sizeof(*gpus));
	int r = !gpus || !gpus_in_order ? -ENOMEM
		: o->strategy           ? o->strategy(o->context, files, count, num_gpus, gpus)
					: deal_out(l, count, gpus);
	if (r >= 0)
		r = gd_share_order(gpus, count, num_gpus, order); /* also detects GPUs that do not exist */
	if (r >= 0 && l->queue.num_lines == 0)
		r = launch_queue_place(&l->queue, num_gpus);
	if (r < 0)
		return r;
	for (size_t k = 0; k < count; k++) {
		gpus_in_order[k] = gpus[order[k]];
		order[k] = numbers[order[k]];
	}
	return launch_queue_add(&l->queue, order, gpus_in_order, count);
}

/* Whether file i comes after the files of this user and root. */
static bool is_deferred(const struct gd_launcher *l, size_t i)
{
	return l->output_of[i].owner != 0;
}

/*
 * Sorts the numbers of files according to balance, into `order`. If other users can choose files, theirs come after
 * those of this user: otherwise they could delay this user's files with long files, which come first.
 */
static int sort_files(
	struct gd_launcher *l, const struct gd_found *const *files, const size_t *numbers, size_t count, size_t *order)
{
	bool by_weight = l->options.balance != GD_BALANCE_AS_FOUND;
	cleanup_(freep) size_t *sorted = calloc(count + 1, sizeof(*sorted));
	int r = sorted ? gd_balance_order(files, count, l->options.balance, sorted) : -ENOMEM;
	if (r < 0)
		return r;
	bool defer = by_weight && !l->options.trust_input && launcher_is_open_to_others(l);
	size_t n = 0;
	for (size_t k = 0; k < count; k++)
		if (!defer || !is_deferred(l, numbers[sorted[k]]))
			order[n++] = numbers[sorted[k]];
	for (size_t k = 0; n < count; k++)
		if (is_deferred(l, numbers[sorted[k]]))
			order[n++] = numbers[sorted[k]];
	return 0;
}

static int order_files(
	struct gd_launcher *l, const struct gd_found *const *files, const size_t *numbers, size_t count, size_t *order)
{
	int r = sort_files(l, files, numbers, count, order);
	return r < 0 ? r : launch_queue_add(&l->queue, order, NULL, count);
}

int launcher_queue_files(struct gd_launcher *l, const size_t *numbers, size_t count)
{
	cleanup_(freep) const struct gd_found **files = calloc(count + 1, sizeof(*files));
	cleanup_(freep) size_t *order = calloc(count + 1, sizeof(*order));
	if (!files || !order)
		return -ENOMEM;
	for (size_t k = 0; k < count; k++)
		files[k] = l->todo[numbers[k]];
	return is_placed(&l->options) ? place_files(l, files, numbers, count, order)
				      : order_files(l, files, numbers, count, order);
}

int launcher_sort_rest(struct gd_launcher *l)
{
	size_t count = l->queue.any.count - l->queue.any.next;
	if (count < 2 || is_placed(&l->options) || l->options.balance == GD_BALANCE_AS_FOUND)
		return 0;
	size_t *rest = l->queue.any.files + l->queue.any.next;
	cleanup_(freep) const struct gd_found **files = calloc(count, sizeof(*files));
	cleanup_(freep) size_t *order = calloc(count, sizeof(*order));
	if (!files || !order)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		files[i] = l->todo[rest[i]];
	int r = sort_files(l, files, rest, count, order);
	if (r == 0)
		memcpy(rest, order, count * sizeof(*rest));
	return r;
}
