/* SPDX-License-Identifier: MIT */
#include "queue/schedule/need.h"

#include "base/units.h"

/* Margin over the observed peak, for fragmentation and spikes between samples. */
#define MARGIN_BYTES(bytes) ((bytes) / 20 + 256 * UNITS_MB)

static size_t count_large(const struct gd_gpu *const *gpus, size_t num_gpus, uint64_t bytes)
{
	size_t n = 0;
	for (size_t i = 0; i < num_gpus; i++)
		n += gpus[i]->health == GD_GPU_HEALTH_OK && gpus[i]->known & GD_GPU_KNOWN_MEMORY_TOTAL &&
		     gpus[i]->memory_total_bytes >= bytes;
	return n;
}

/* For a job without --mem. */
static void set_threshold(const struct job_wish *w, const struct need_rules *rules, struct placement_need *need)
{
	int64_t mb = w->min_free_mem_mb >= 0 ? w->min_free_mem_mb : rules->min_free_mem_mb;
	need->by_card = mb < 0;
	need->memory_bytes = mb < 0 ? 0 : (uint64_t)mb * UNITS_MB;
	need->alone = w->exclusive || (mb < 0 && rules->jobs_per_gpu < 2);
}

void wish_need(const struct job_wish *w, int64_t learned_mb, const struct need_rules *rules,
	const struct gd_gpu *const *gpus, size_t num_gpus, struct placement_need *ret)
{
	struct placement_need need = {.num_gpus = w->num_gpus < 0 ? 1 : (unsigned)w->num_gpus,
		.declared = w->mem_mb >= 0,
		.alone = w->exclusive,
		.host_bytes = w->host_mem_mb > 0 ? (uint64_t)w->host_mem_mb * UNITS_MB : 0,
		.cpus = w->cpus > 0 ? (unsigned)w->cpus : 0,
		.pin = w->gpu};
	if (need.declared)
		need.memory_bytes = (uint64_t)w->mem_mb * UNITS_MB;
	else
		set_threshold(w, rules, &need);
	uint64_t learned = learned_mb > 0 ? (uint64_t)learned_mb * UNITS_MB : 0;
	if (learned && count_large(gpus, num_gpus, learned + MARGIN_BYTES(learned)) >= need.num_gpus)
		learned += MARGIN_BYTES(learned);
	if (learned > need.memory_bytes)
		need.memory_bytes = learned;
	/* A job without a GPU needs no GPU memory; without --cpus it counts as one CPU. */
	if (need.num_gpus == 0) {
		need.memory_bytes = 0;
		need.declared = need.alone = need.by_card = false;
		need.cpus = need.cpus ? need.cpus : 1;
	}
	*ret = need;
}
