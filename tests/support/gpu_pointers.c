/* SPDX-License-Identifier: MIT */
#include "support/gpu_pointers.h"

#define MOST 65536

/* One long array: nothing is ever freed, and tests use few. */
static const void *pointers[MOST];
static size_t used;

static const void **take(size_t count)
{
	if (count > MOST - used)
		used = 0;
	const void **taken = pointers + used;
	used += count;
	return taken;
}

const struct gd_gpu *const *gpu_pointers(const struct gd_gpu *gpus, size_t count)
{
	const void **taken = take(count);
	for (size_t i = 0; i < count; i++)
		taken[i] = &gpus[i];
	return (const struct gd_gpu *const *)taken;
}

const struct gd_gpu_process *const *process_pointers(const struct gd_gpu_process *processes, size_t count)
{
	const void **taken = take(count);
	for (size_t i = 0; i < count; i++)
		taken[i] = &processes[i];
	return (const struct gd_gpu_process *const *)taken;
}
