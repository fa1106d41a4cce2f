/* SPDX-License-Identifier: MIT */
#include "queue/schedule/need.h"

#include "base/units.h"

/* By which more is more: what allocators lose to fragments, and what a sample each two seconds does not see. */
#define MARGIN_BYTES(bytes) ((bytes) / 20 + 256 * UNITS_MB)

static size_t count_large(const struct gd_gpu_list *gpus, uint64_t bytes)
{
	size_t n = 0;
	for (size_t i = 0; gpus && i < gpus->count; i++)
		n += gpus->gpus[i]->health == GD_GPU_HEALTH_OK && gpus->gpus[i]->known & GD_GPU_KNOWN_MEMORY_TOTAL &&
		     gpus->gpus[i]->memory_total_bytes >= bytes;
	return n;
}

void job_need(
	const struct job *job, int64_t min_free_mem_mb, const struct gd_gpu_list *gpus, struct placement_need *ret)
{
	const struct job_wish *w = job->wish;
	bool declared = w->mem_mb >= 0;
	int64_t mb = declared ? w->mem_mb : w->min_free_mem_mb >= 0 ? w->min_free_mem_mb : min_free_mem_mb;
	struct placement_need need = {.memory_bytes = (uint64_t)mb * UNITS_MB,
		.declared = declared,
		.num_gpus = w->num_gpus < 0 ? 1 : (unsigned)w->num_gpus};
	uint64_t learned = job->need_mb > 0 ? (uint64_t)job->need_mb * UNITS_MB : 0;
	if (learned) {
		uint64_t more = learned + MARGIN_BYTES(learned);
		if (count_large(gpus, more) >= need.num_gpus)
			learned = more;
		need.declared = true;
		if (!declared || learned > need.memory_bytes)
			need.memory_bytes = learned;
	}
	*ret = need;
}
