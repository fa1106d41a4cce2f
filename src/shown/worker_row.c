/* SPDX-License-Identifier: MIT */
#include "shown/worker_row.h"

enum view_gpu_status worker_status(enum gd_worker_state state)
{
	switch (state) {
	case GD_WORKER_STATE_STARTING:
		return VIEW_GPU_INITIALIZING;
	case GD_WORKER_STATE_BUSY:
		return VIEW_GPU_PROCESSING;
	case GD_WORKER_STATE_IDLE:
		return VIEW_GPU_IDLE;
	case GD_WORKER_STATE_ENDING:
	case GD_WORKER_STATE_FINISHED:
		return VIEW_GPU_FINISHED;
	case GD_WORKER_STATE_LOST:
		break;
	}
	return VIEW_GPU_ERROR;
}

struct view_gpu worker_row(const struct gd_worker_stats *w)
{
	struct view_gpu g = view_gpu_unknown(w->gpu, w->slot);
	g.status = worker_status(w->state);
	if (w->state == GD_WORKER_STATE_LOST)
		g.error = w->message[0] ? w->message : "stopped: its setup failed, or it crashed too often";
	g.num_tasks = w->has_task;
	g.since_ns = w->has_task && w->since_ns ? (int64_t)w->since_ns : -1;
	g.last_duration_ns = w->last_duration_ns ? (int64_t)w->last_duration_ns : -1;
	g.completed = w->completed;
	g.failed = w->failed + w->timeouts;
	g.timeouts = w->timeouts;
	return g;
}
