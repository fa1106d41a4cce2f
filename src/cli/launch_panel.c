/* SPDX-License-Identifier: MIT */
#include "cli/launch_panel.h"

#include <stdio.h>

#include "base/units.h"

/*
 * Uses the balancer's counts: unlike a worker's statistics, they include the last files. They are sums over all workers
 * of a GPU, so they are only used if the GPU has one worker.
 */
static bool count_files(const struct gd_launch_progress *progress, int gpu, struct pool_panel_counts *ret)
{
	size_t workers = 0;
	for (size_t i = 0; i < progress->num_workers; i++)
		workers += progress->workers[i]->stats->gpu == gpu;
	for (size_t i = 0; workers == 1 && i < progress->summary->num_gpus; i++)
		if (!progress->summary->gpus[i]->node && progress->summary->gpus[i]->gpu == gpu) {
			ret->completed = progress->summary->gpus[i]->files;
			ret->failed = progress->summary->gpus[i]->failed;
			return true;
		}
	return false;
}

static void put_worker(
	struct pool_panel *p, const struct gd_launch_progress *progress, const struct gd_launch_worker *worker)
{
	struct pool_panel_counts counts;
	char name[96];
	bool counted = count_files(progress, worker->stats->gpu, &counts);
	if (worker->node)
		snprintf(name, sizeof(name), "%.64s:%lld", worker->node, (long long)worker->gpu);
	pool_panel_put_worker(p, worker->stats, worker->file, worker->node ? name : NULL, counted ? &counts : NULL);
}

/* "12m 05s of 1h 20m audio, RTF 0.12" */
static void describe(char *words, size_t room, const struct gd_launch_progress *progress)
{
	char done[UNITS_ROOM], total[UNITS_ROOM], rtf[32] = "";
	if (progress->summary->known & GD_KNOWN_RTF)
		snprintf(rtf, sizeof(rtf), ", RTF %.3g", progress->summary->rtf);
	if (progress->known & GD_KNOWN_SECONDS)
		snprintf(words, room, "%s of %s audio%s", units_format_seconds(progress->done_amount, done),
			units_format_seconds(progress->total_amount, total), rtf);
	else
		snprintf(words, room, "%s of %s%s", units_format_size((uint64_t)progress->done_amount, done),
			units_format_size((uint64_t)progress->total_amount, total), rtf);
}

static const char *note_of(const struct gd_launch_progress *progress)
{
	if (progress->cancelling)
		return "Cancelling running files.";
	if (progress->ending)
		return "Stopping after the running files. Ctrl-C again cancels them.";
	return progress->watching ? "Watching for new files. Ctrl-C stops after the running files." : NULL;
}

static void put_work(struct pool_panel *p, const struct gd_launch_progress *progress)
{
	const struct gd_launch_summary *s = progress->summary;
	char detail[96];
	uint64_t running = 0;
	for (size_t i = 0; i < progress->num_workers; i++)
		running += progress->workers[i]->file != NULL;
	uint64_t all = s->files_total - s->files_skipped, over = s->files_done + s->files_failed;
	describe(detail, sizeof(detail), progress);
	struct view_work w = {.title = "gpuq launch",
		.total = all > 0 ? (int64_t)all : -1, /* a watched folder may be empty */
		.done = s->files_done,
		.failed = s->files_failed,
		.running = running,
		.waiting = all > over + running ? all - over - running : 0,
		.total_amount = progress->total_amount,
		.done_amount = progress->done_amount,
		.detail = all > 0 ? detail : NULL,
		.given_eta_ns = progress->eta_seconds > 0 ? (int64_t)(progress->eta_seconds * 1e9) : 0,
		.note = running || progress->watching ? note_of(progress) : NULL};
	pool_panel_begin(p, &w);
}

void launch_panel_draw(struct pool_panel *p, const struct gd_launch_progress *progress)
{
	put_work(p, progress);
	for (size_t i = 0; i < progress->num_workers; i++)
		put_worker(p, progress, progress->workers[i]);
	pool_panel_draw(p);
}
