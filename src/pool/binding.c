/* SPDX-License-Identifier: MIT */
#include "pool/binding.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "gpu/bind.h"
#include "gpu/list.h"
#include "gpu/spec.h"

#define MOST_WORKERS 4096

void bindings_finish(struct bindings *b)
{
	for (size_t i = 0; i < b->count; i++)
		free(b->items[i].changes);
	free(b->items);
	*b = (struct bindings){0};
}

/* Allocates the workers of this many GPUs. */
static int allocate(const struct gd_options *o, size_t num_gpus, struct bindings *b, struct gd_error *err)
{
	size_t per_gpu = (size_t)o->workers_per_gpu;
	if (num_gpus == 0)
		return error_set(err, -ENODEV,
			"no GPUs: this machine has none; use simulated ones with gpus = \"sim:4\" or GPUQ_GPUS=sim:4");
	if (num_gpus > MOST_WORKERS / per_gpu)
		return error_set(err, -EINVAL, "%zu workers on each of %zu GPUs exceed the limit of %d workers",
			per_gpu, num_gpus, MOST_WORKERS);
	b->items = calloc(num_gpus * per_gpu, sizeof(*b->items));
	if (!b->items)
		return error_set(err, -ENOMEM, "not enough memory for %zu workers", num_gpus * per_gpu);
	return 0;
}

/* ---- Numbers alone ------------------------------------------------------ */

static int add_number(const struct gd_options *o, int gpu, struct bindings *b, struct gd_error *err)
{
	for (int k = 0; k < o->workers_per_gpu; k++) {
		struct binding *item = &b->items[b->count];
		*item = (struct binding){.gpu = gpu, .device = gpu};
		int r = gpu_bind_none(&gpu, 1, &item->changes, err);
		if (r < 0)
			return r;
		b->count++;
	}
	return 0;
}

static int choose_ids(const struct gd_options *o, struct bindings *b, struct gd_error *err)
{
	int r = allocate(o, o->num_gpu_ids, b, err);
	for (size_t i = 0; r >= 0 && i < o->num_gpu_ids; i++)
		r = add_number(o, o->gpu_ids[i], b, err);
	return r;
}

static bool is_numbers(const struct gpu_spec *spec)
{
	for (size_t i = 0; i < spec->num_items; i++)
		if (spec->items[i].uuid)
			return false;
	return spec->kind == GPU_SPEC_ITEMS;
}

static int choose_items(
	const struct gd_options *o, const struct gpu_spec *spec, struct bindings *b, struct gd_error *err)
{
	size_t num_gpus = 0;
	for (size_t i = 0; i < spec->num_items; i++)
		num_gpus += (size_t)(spec->items[i].last - spec->items[i].first) + 1;
	int r = allocate(o, num_gpus, b, err);
	for (size_t i = 0; r >= 0 && i < spec->num_items; i++)
		for (int gpu = spec->items[i].first; r >= 0 && gpu <= spec->items[i].last; gpu++)
			r = add_number(o, gpu, b, err);
	return r;
}

/* ---- GPUs of the machine ------------------------------------------------ */

static int add_gpu(const struct gd_options *o, const struct gd_gpu *gpu, struct bindings *b, struct gd_error *err)
{
	for (int k = 0; k < o->workers_per_gpu; k++) {
		struct binding *item = &b->items[b->count];
		*item = (struct binding){.gpu = gpu->index, .vendor = gpu->vendor};
		int r;
		if (o->bind == GD_BIND_NONE) {
			item->device = gpu->index;
			r = gpu_bind_none(&gpu->index, 1, &item->changes, err);
		} else {
			r = gd_gpu_bind(&gpu, 1, &item->changes, err);
		}
		if (r < 0)
			return r;
		b->count++;
	}
	return 0;
}

static int check_usable(const struct gd_gpu *gpu, struct gd_error *err)
{
	if (gd_gpu_usable(gpu))
		return 0;
	int r = gd_gpu_validate(&gpu->index, 1, err); /* err has been set */
	return r < 0 ? r : error_set(err, -ENODEV, "GPU %d cannot be used", gpu->index);
}

static int choose_listed(const struct gd_options *o, struct bindings *b, struct gd_error *err)
{
	struct gd_gpu_list *list = NULL;
	int r = o->gpu_ids ? gpu_list_ids(o->gpu_ids, o->num_gpu_ids, &list, err) : gd_gpu_list(o->gpus, &list, err);
	if (r < 0)
		return r;
	r = allocate(o, list->count, b, err);
	for (size_t i = 0; r >= 0 && i < list->count; i++) {
		r = check_usable(list->gpus[i], err);
		if (r >= 0)
			r = add_gpu(o, list->gpus[i], b, err);
	}
	gd_gpu_list_free(list);
	return r;
}

static int choose_unbound(const struct gd_options *o, struct bindings *b, struct gd_error *err)
{
	if (o->gpu_ids)
		return choose_ids(o, b, err);
	cleanup_(gpu_spec_finish) struct gpu_spec spec = {0};
	int r = gpu_spec_parse(o->gpus, NULL, &spec, err);
	if (r < 0)
		return r;
	return is_numbers(&spec) ? choose_items(o, &spec, b, err) : choose_listed(o, b, err);
}

/* ---- Seeds -------------------------------------------------------------- */

/* base_seed + GPU; further workers of a GPU add a large offset, so that no two workers share a seed. */
static void give_seeds(int64_t base_seed, struct bindings *b)
{
	uint64_t stride = 1;
	for (size_t i = 0; i < b->count; i++)
		if ((uint64_t)b->items[i].gpu >= stride)
			stride = (uint64_t)b->items[i].gpu + 1;
	for (size_t i = 0; i < b->count; i++) {
		uint64_t before = 0; /* workers of the same GPU */
		for (size_t k = 0; k < i; k++)
			before += b->items[k].gpu == b->items[i].gpu;
		b->items[i].seed = (int64_t)((uint64_t)base_seed + (uint64_t)b->items[i].gpu + before * stride);
	}
}

int bindings_choose(const struct gd_options *o, struct bindings *ret, struct gd_error *err)
{
	struct bindings b = {0};
	int r = o->bind == GD_BIND_NONE ? choose_unbound(o, &b, err) : choose_listed(o, &b, err);
	if (r < 0) {
		bindings_finish(&b);
		return r;
	}
	give_seeds(o->base_seed, &b);
	*ret = b;
	return 0;
}
