/* SPDX-License-Identifier: MIT */
#include "cli/map_panel.h"

#include <stdio.h>

/* A worker counts messages; the panel shows items if a GPU has one worker. */
static bool count_items(const struct map_progress *progress, int gpu, struct pool_panel_counts *ret)
{
	size_t workers = 0;
	for (size_t i = 0; i < progress->num_workers; i++)
		workers += progress->workers[i].gpu == gpu;
	for (size_t i = 0; workers == 1 && i < progress->summary->num_gpus; i++)
		if (progress->summary->gpus[i].gpu == gpu) {
			ret->completed = progress->summary->gpus[i].items;
			ret->failed = progress->summary->gpus[i].failed;
			return true;
		}
	return false;
}

static void put_worker(struct pool_panel *p, const struct map_progress *progress, const struct gd_worker_stats *w)
{
	char task[48];
	struct pool_panel_counts counts;
	snprintf(task, sizeof(task), "message %llu", (unsigned long long)w->task_id + 1);
	bool counted = count_items(progress, w->gpu, &counts);
	pool_panel_put_worker(p, w, w->has_task ? task : NULL, NULL, counted ? &counts : NULL);
}

static const char *note_of(const struct map_progress *progress)
{
	if (progress->cancelling)
		return "Cancelling running messages.";
	return progress->ending ? "Stopping after the running messages. Ctrl-C again cancels them." : NULL;
}

static void put_work(struct pool_panel *p, const struct map_progress *progress)
{
	const struct map_summary *s = progress->summary;
	uint64_t all = s->total - s->skipped, over = s->done + s->failed;
	struct view_work w = {
		.title = "gpuq map",
		.total = s->total_known ? (int64_t)all : -1,
		.done = s->done,
		.failed = s->failed,
		.running = progress->running,
		.waiting = s->total_known && all > over + progress->running ? all - over - progress->running : 0,
		.total_amount = s->total_known ? 0 : (double)s->input_bytes,
		.done_amount = s->total_known ? 0 : (double)s->done_bytes,
		.note = progress->running ? note_of(progress) : NULL,
	};
	pool_panel_begin(p, &w);
}

void map_panel_draw(struct pool_panel *p, const struct map_progress *progress)
{
	put_work(p, progress);
	for (size_t i = 0; i < progress->num_workers; i++)
		put_worker(p, progress, &progress->workers[i]);
	pool_panel_draw(p);
}
