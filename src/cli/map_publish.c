/* SPDX-License-Identifier: MIT */
#include "cli/map_publish.h"

static double fraction_of(const struct map_summary *s, uint64_t all, uint64_t over)
{
	if (s->total_known)
		return all > 0 ? (double)over / (double)all : -1;
	return s->input_bytes > 0 ? (double)s->done_bytes / (double)s->input_bytes : -1;
}

static void publish(struct run_file *f, const struct map_summary *s, uint64_t running, bool ending)
{
	struct view_run_gpu gpus[RUN_FILE_GPUS];
	uint64_t all = s->total - s->skipped, over = s->done + s->failed;
	bool has_eta = s->total_known && s->items_per_second > 0 && over < all;
	struct view_run run = {
		.total = s->total_known ? (int64_t)all : -1,
		.done = s->done,
		.failed = s->failed,
		.skipped = s->skipped,
		.running = running,
		.fraction = fraction_of(s, all, over),
		.rate = s->items_per_second,
		.rtf = -1,
		.eta_ms = has_eta ? (int64_t)((double)(all - over) / s->items_per_second * 1000) : -1,
		.ending = ending,
		.gpus = gpus,
	};
	for (; run.num_gpus < s->num_gpus && run.num_gpus < RUN_FILE_GPUS; run.num_gpus++) {
		const struct map_gpu *g = &s->gpus[run.num_gpus];
		gpus[run.num_gpus] =
			(struct view_run_gpu){.id = g->gpu, .done = g->items, .failed = g->failed, .rtf = -1};
	}
	run_file_put(f, &run);
}

void map_publish(struct run_file *f, const struct map_progress *p)
{
	if (run_file_is_due(f))
		publish(f, p->summary, p->running, p->ending);
}

void map_publish_end(struct run_file *f, const struct map_summary *s)
{
	publish(f, s, 0, false);
}
