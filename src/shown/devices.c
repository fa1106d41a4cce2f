/* SPDX-License-Identifier: MIT */
#include "shown/devices.h"

#include <stddef.h>

#define SAMPLE_MS 1000

void devices_open(struct devices *d, enum gd_vendor vendor)
{
	if (d->opened)
		return;
	d->opened = true;
	if (vendor != GD_VENDOR_SIMULATED)
		(void)gpu_probe_open(
			&(struct gpu_probe_options){.spec = "all", .period_ms = SAMPLE_MS}, &d->probe, NULL);
}

int devices_fd(const struct devices *d)
{
	return d->probe ? gpu_probe_fd(d->probe) : -1;
}

void devices_read(struct devices *d)
{
	struct gpu_news news;
	struct gd_gpu_list *list;
	bool any = false;
	int r = 0;
	while (d->probe && (r = gpu_probe_read(d->probe, &news)) > 0)
		any = true;
	if (any && gpu_probe_list(d->probe, &list, NULL) == 0) {
		gd_gpu_list_free(d->gpus);
		d->gpus = list;
	}
	if (r < 0) {
		gpu_probe_close(d->probe);
		d->probe = NULL;
	}
}

void devices_fill_row_from(struct view_gpu *g, const struct gd_gpu *gpu)
{
	if (gpu->known & GD_GPU_KNOWN_NAME)
		g->name = gpu->name;
	if (gpu->known & GD_GPU_KNOWN_MEMORY_TOTAL)
		g->memory_total_bytes = (int64_t)gpu->memory_total_bytes;
	if (gpu->known & GD_GPU_KNOWN_MEMORY_USED)
		g->memory_used_bytes = (int64_t)gpu->memory_used_bytes;
	if (gpu->known & GD_GPU_KNOWN_UTILIZATION)
		g->utilization_percent = (int)gpu->utilization_percent;
}

void devices_fill_row(const struct devices *d, struct view_gpu *g)
{
	const struct gd_gpu *found = NULL;
	/* The instances of a split card share its number, so their figures cannot be told apart. */
	for (size_t i = 0; d->gpus && i < d->gpus->count; i++)
		if (d->gpus->gpus[i]->index == g->id && d->gpus->gpus[i]->mig_index < 0)
			found = d->gpus->gpus[i];
	if (found)
		devices_fill_row_from(g, found);
}

void devices_close(struct devices *d)
{
	gpu_probe_close(d->probe);
	gd_gpu_list_free(d->gpus);
	*d = (struct devices){.opened = true};
}
