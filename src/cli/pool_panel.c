/* SPDX-License-Identifier: MIT */
#include "cli/pool_panel.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "shown/devices.h"
#include "shown/worker_row.h"
#include "view/panel/capture.h"
#include "view/panel/panel.h"
#include "view/panel/panel_guard.h"

struct pool_panel {
	int fd; /* the terminal, even while standard output is redirected */
	uint64_t start_ns;
	uint64_t now_ns; /* time of the current picture */
	struct view_model *model;
	struct panel *panel;
	struct capture capture;
	struct devices devices;
};

struct pool_panel *pool_panel_create(int fd)
{
	struct pool_panel *p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->start_ns = clock_now_ns();
	p->capture = (struct capture){.fd = -1, .saved = {-1, -1, -1}};
	p->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	p->model = view_model_create(1);
	if (p->model && p->fd >= 0)
		p->panel = panel_create(&(struct panel_options){.fd = p->fd, .mode = PANEL_LIVE});
	if (!p->panel || capture_begin(&p->capture, p->fd) < 0) {
		pool_panel_destroy(p);
		return NULL;
	}
	panel_guard_drain(p->capture.fd);
	return p;
}

void pool_panel_begin(struct pool_panel *p, const struct view_work *work)
{
	struct view_work w = *work;
	p->now_ns = clock_now_ns();
	w.start_ns = p->start_ns;
	w.time_ns = p->now_ns;
	devices_read(&p->devices);
	(void)view_put_work(p->model, &w); /* if out of memory, the old totals stay */
}

void pool_panel_put_worker(struct pool_panel *p, const struct gd_worker_stats *w, const char *task, const char *name,
	const struct pool_panel_counts *counts)
{
	struct view_gpu g = worker_row(w);
	g.task = task;
	g.num_tasks = task != NULL;
	g.since_ns = task && w->since_ns ? (int64_t)w->since_ns : -1;
	if (counts) {
		g.completed = counts->completed;
		g.failed = counts->failed;
	}
	g.name = name;
	if (!name) { /* a GPU of this machine, not of a node: show its figures, too */
		devices_open(&p->devices, w->vendor);
		devices_fill_row(&p->devices, &g);
	}
	(void)view_put_gpu(p->model, &g); /* if out of memory, the old row stays */
}

void pool_panel_draw(struct pool_panel *p)
{
	capture_print(&p->capture, p->panel);
	panel_draw(p->panel, p->model, p->now_ns);
}

void pool_panel_print(struct pool_panel *p, const char *lines, size_t size)
{
	panel_print(p->panel, lines, size);
}

static void put_end(struct pool_panel *p)
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

void pool_panel_destroy(struct pool_panel *p)
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
