/* SPDX-License-Identifier: MIT */
#include "cli/launch_publish.h"

#include <string.h>

static double rtf_of(const struct gd_launch_gpu *g)
{
	return g->audio_seconds > 0 ? g->processing_seconds / g->audio_seconds : -1;
}

/* GPU numbers repeat across nodes, so GPUs of nodes are numbered consecutively. */
static struct view_run_gpu row_of(const struct gd_launch_summary *s, size_t i)
{
	const struct gd_launch_gpu *g = s->gpus[i];
	return (struct view_run_gpu){
		.id = g->node ? (int)i : (int)g->gpu, .done = g->files, .failed = g->failed, .rtf = rtf_of(g)};
}

static bool is_on(const struct gd_launch_worker *worker, const struct gd_launch_gpu *g)
{
	if (!g->node)
		return worker->stats->gpu == (int)g->gpu;
	return worker->node && strcmp(worker->node, g->node) == 0 && worker->gpu == g->gpu;
}

static void fill_gpu(struct view_run_gpu *ret, const struct gd_launch_progress *p, size_t index)
{
	*ret = row_of(p->summary, index);
	for (size_t i = 0; i < p->num_workers && !ret->task; i++)
		if (is_on(p->workers[i], p->summary->gpus[index]))
			ret->task = p->workers[i]->file;
}

static double fraction_of(const struct gd_launch_progress *p, uint64_t all, uint64_t over)
{
	double fraction = p->total_amount > 0 ? p->done_amount / p->total_amount
			  : all > 0           ? (double)over / (double)all
					      : -1;
	return fraction > 1 ? 1 : fraction;
}

static void fill(struct view_run *run, const struct gd_launch_summary *s)
{
	uint64_t all = s->files_total - s->files_skipped, over = s->files_done + s->files_failed;
	double working = s->wall_seconds - s->loading_seconds - s->idle_seconds;
	*run = (struct view_run){
		.total = (int64_t)all,
		.done = s->files_done,
		.failed = s->files_failed,
		.skipped = s->files_skipped,
		.fraction = -1,
		.rate = over > 0 && working > 0 ? (double)over / working : 0,
		.rtf = s->known & GD_KNOWN_RTF ? s->rtf : -1,
		.eta_ms = -1,
	};
}

void launch_publish(struct run_file *f, const struct gd_launch_progress *p)
{
	const struct gd_launch_summary *s = p->summary;
	struct view_run_gpu gpus[RUN_FILE_GPUS];
	struct view_run run;
	if (!run_file_is_due(f))
		return;
	fill(&run, s);
	uint64_t all = (uint64_t)run.total, over = run.done + run.failed;
	run.fraction = fraction_of(p, all, over);
	run.eta_ms = p->known & GD_KNOWN_ETA && over < all ? (int64_t)(p->eta_seconds * 1000) : -1;
	run.watching = p->watching;
	run.ending = p->ending;
	run.gpus = gpus;
	for (size_t i = 0; i < p->num_workers; i++)
		run.running += p->workers[i]->file != NULL;
	for (; run.num_gpus < s->num_gpus && run.num_gpus < RUN_FILE_GPUS; run.num_gpus++)
		fill_gpu(&gpus[run.num_gpus], p, run.num_gpus);
	run_file_put(f, &run);
}

void launch_publish_end(struct run_file *f, const struct gd_launch_summary *s)
{
	struct view_run_gpu gpus[RUN_FILE_GPUS];
	struct view_run run;
	fill(&run, s);
	run.gpus = gpus;
	for (; run.num_gpus < s->num_gpus && run.num_gpus < RUN_FILE_GPUS; run.num_gpus++)
		gpus[run.num_gpus] = row_of(s, run.num_gpus);
	run_file_put(f, &run);
}
