/* SPDX-License-Identifier: MIT */
#include "cli/launch_panel.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/units.h"
#include "shown/devices.h"
#include "shown/worker_row.h"
#include "view/panel/capture.h"
#include "view/panel/panel.h"
#include "view/panel/panel_guard.h"

struct launch_panel {
	int fd; /* the terminal, also while standard output leads elsewhere */
	uint64_t start_ns;
	struct view_model *model;
	struct panel *panel;
	struct capture capture;
	struct devices devices;
};

/* The balancer's counts know of the last files too; where a GPU has several workers they are of all. */
static void add_counts(struct view_gpu *g, const struct gd_launch_progress *progress)
{
	size_t workers = 0;
	for (size_t i = 0; i < progress->num_workers; i++)
		workers += progress->workers[i]->stats->gpu == g->id;
	for (size_t i = 0; workers == 1 && i < progress->summary->num_gpus; i++)
		if (progress->summary->gpus[i]->gpu == g->id) {
			g->completed = progress->summary->gpus[i]->files;
			g->failed = progress->summary->gpus[i]->failed;
		}
}

static void put_worker(
	struct launch_panel *p, const struct gd_launch_progress *progress, const struct gd_launch_worker *worker)
{
	const struct gd_worker_stats *w = worker->stats;
	struct view_gpu g = worker_row(w);
	g.task = worker->file;
	g.num_tasks = worker->file != NULL;
	g.since_ns = worker->file && w->since_ns ? (int64_t)w->since_ns : -1;
	add_counts(&g, progress);
	devices_open(&p->devices, w->vendor);
	devices_fill_row(&p->devices, &g);
	(void)view_put_gpu(p->model, &g); /* without memory it stays as it was */
}

/* "12m 05s of 1h 20m audio, RTF 0.12" */
static void describe(char *words, size_t room, const struct gd_launch_progress *progress)
{
	char done[UNITS_ROOM], total[UNITS_ROOM], rtf[32] = "";
	if (progress->summary->known & GD_KNOWN_RTF)
		snprintf(rtf, sizeof(rtf), ", RTF %.3g", progress->summary->rtf);
	if (progress->known & GD_KNOWN_SECONDS)
		snprintf(words, room, "%s of %s audio%s",
			units_format_duration((uint64_t)(progress->done_amount * 1000), done),
			units_format_duration((uint64_t)(progress->total_amount * 1000), total), rtf);
	else
		snprintf(words, room, "%s of %s%s", units_format_size((uint64_t)progress->done_amount, done),
			units_format_size((uint64_t)progress->total_amount, total), rtf);
}

static const char *note_of(const struct gd_launch_progress *progress)
{
	if (progress->cancelling)
		return "What runs is being cancelled.";
	return progress->ending ? "No new file begins. Ctrl-C once more cancels what runs." : NULL;
}

static void put_work(struct launch_panel *p, const struct gd_launch_progress *progress, uint64_t now_ns)
{
	const struct gd_launch_summary *s = progress->summary;
	char detail[96];
	uint64_t running = 0;
	for (size_t i = 0; i < progress->num_workers; i++)
		running += progress->workers[i]->file != NULL;
	uint64_t all = s->files_total - s->files_skipped, over = s->files_done + s->files_failed;
	describe(detail, sizeof(detail), progress);
	struct view_work w = {.title = "gpuq launch",
		.total = (int64_t)all,
		.done = s->files_done,
		.failed = s->files_failed,
		.running = running,
		.waiting = all > over + running ? all - over - running : 0,
		.total_amount = progress->total_amount,
		.done_amount = progress->done_amount,
		.detail = detail,
		.given_eta_ns = progress->eta_seconds > 0 ? (int64_t)(progress->eta_seconds * 1e9) : 0,
		.note = running ? note_of(progress) : NULL,
		.start_ns = p->start_ns,
		.time_ns = now_ns};
	(void)view_put_work(p->model, &w);
}

void launch_panel_draw(struct launch_panel *p, const struct gd_launch_progress *progress)
{
	uint64_t now_ns = clock_now_ns();
	devices_read(&p->devices);
	put_work(p, progress, now_ns);
	for (size_t i = 0; i < progress->num_workers; i++)
		put_worker(p, progress, progress->workers[i]);
	capture_print(&p->capture, p->panel);
	panel_draw(p->panel, p->model, now_ns);
}

void launch_panel_print(struct launch_panel *p, const char *lines, size_t size)
{
	panel_print(p->panel, lines, size);
}

struct launch_panel *launch_panel_create(int fd)
{
	struct launch_panel *p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->start_ns = clock_now_ns();
	p->capture = (struct capture){.fd = -1, .saved = {-1, -1, -1}};
	p->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	p->model = view_model_create(1);
	if (p->model && p->fd >= 0)
		p->panel = panel_create(&(struct panel_options){.fd = p->fd, .mode = PANEL_LIVE});
	if (!p->panel || capture_begin(&p->capture, p->fd) < 0) {
		launch_panel_destroy(p);
		return NULL;
	}
	panel_guard_drain(p->capture.fd);
	return p;
}

/* The clock stands; whoever has nothing to do has done it. */
static void put_end(struct launch_panel *p)
{
	struct view_work w = *view_work(p->model);
	w.end_ns = clock_now_ns();
	w.running = 0;
	w.note = NULL;
	(void)view_put_work(p->model, &w);
	for (size_t i = 0; i < view_num_gpus(p->model); i++) {
		struct view_gpu g = *view_gpu(p->model, i);
		g.status = g.status == VIEW_GPU_ERROR ? VIEW_GPU_ERROR : VIEW_GPU_FINISHED;
		g.task = NULL;
		g.num_tasks = 0;
		g.since_ns = -1;
		(void)view_put_gpu(p->model, &g);
	}
}

void launch_panel_destroy(struct launch_panel *p)
{
	if (!p)
		return;
	bool drawn = p->model && view_work(p->model)->start_ns;
	if (p->panel)
		capture_print(&p->capture, p->panel);
	if (drawn)
		put_end(p);
	panel_destroy(p->panel, drawn ? p->model : NULL, clock_now_ns());
	capture_end(&p->capture);
	devices_close(&p->devices);
	view_model_destroy(p->model);
	closep(&p->fd);
	free(p);
}
