/* SPDX-License-Identifier: MIT */
/* The progress of a run, and its ETA. */
#include "base/sized.h"
#include "launch/balancer.h"
#include "launch/launcher_private.h"

SIZED_NO_TAIL(gd_launch_progress, reserved);
SIZED_NO_TAIL(gd_launch_worker, gpu);

#define PROGRESS_NS (100 * NS_PER_MS)

static void change(struct launch_amount *a, const struct gd_found *file, double sign)
{
	if (found_has_seconds(file)) {
		a->seconds += sign * file->seconds;
		a->seconds_bytes += sign * (double)file->size_bytes;
	} else {
		a->bytes += sign * (double)file->size_bytes;
	}
}

void launch_amount_add(struct launch_amount *a, const struct gd_found *file)
{
	change(a, file, 1);
}

void launch_amount_remove(struct launch_amount *a, const struct gd_found *file)
{
	change(a, file, -1);
}

/* As in workload.h: seconds, with unknown ones estimated at the mean of the others; or bytes. */
static double amount_in(const struct launch_amount *a, double seconds_per_byte)
{
	return seconds_per_byte > 0 ? a->seconds + a->bytes * seconds_per_byte : a->seconds_bytes + a->bytes;
}

/*
 * Remaining work, in seconds of one worker, divided by the number of live workers. The time spent on running files
 * counts as done work: counting only ended files would make the first ETA of long files far too long.
 */
static double eta_seconds(const struct gd_launcher *l, const struct gd_launch_summary *s, double total, double done)
{
	double left = total - done, busy = 0;
	size_t alive = 0;
	if (s->files_done + s->files_failed == 0 || done <= 0 || s->processing_seconds <= 0)
		return -1;
	uint64_t now = clock_now_ns();
	for (size_t i = 0; i < l->num_workers; i++) {
		const struct gd_worker_stats *w = &l->worker_states[i].stats;
		alive += w->state == GD_WORKER_STATE_IDLE || w->state == GD_WORKER_STATE_BUSY;
		if (w->has_task && w->since_ns && w->since_ns < now)
			busy += (double)(now - w->since_ns) / (double)NS_PER_S;
	}
	double work = left * s->processing_seconds / done - busy;
	return alive == 0 ? -1 : work > 0 ? work / (double)alive : 0;
}

/* Mean time that a worker spent loading. Lost workers that have processed nothing do not count. */
static double loading_seconds(const struct gd_launcher *l)
{
	uint64_t all_ns = l->reloaded_ns;
	size_t workers = 0;
	for (size_t i = 0; i < l->num_workers; i++) {
		const struct gd_worker_stats *w = &l->worker_states[i].stats;
		if (w->state == GD_WORKER_STATE_LOST && w->completed + w->failed + w->timeouts == 0)
			continue;
		all_ns += w->loading_ns;
		workers++;
	}
	return workers ? (double)all_ns / (double)NS_PER_S / (double)workers : 0;
}

void launcher_look_at_workers(struct gd_launcher *l)
{
	if (!l->pool)
		return;
	for (size_t i = 0; i < l->num_workers; i++) {
		struct launcher_worker *w = &l->worker_states[i];
		w->public.file = NULL;
		launcher_remote_place_worker(l, i, &w->public);
		if (gd_pool_worker_stats(l->pool, (int)i, &w->stats, sizeof(w->stats)) == 0 && w->stats.has_task &&
			w->stats.task_id < l->num_submitted)
			w->public.file = l->todo[l->submitted[w->stats.task_id]]->path;
	}
	gd_balancer_set_loading(l->balancer, loading_seconds(l));
	balancer_set_idle(l->balancer, (double)l->idle_ns / (double)NS_PER_S);
}

void launcher_progress(struct gd_launcher *l, bool last)
{
	if (!l->options.on_progress)
		return;
	uint64_t now = clock_now_ns();
	if (!last && now < l->progress_at_ns)
		return;
	l->progress_at_ns = now + PROGRESS_NS;
	launcher_look_at_workers(l);
	struct gd_launch_summary summary;
	gd_launcher_summary(l, &summary, sizeof(summary));
	double rate =
		l->total.seconds > 0 && l->total.seconds_bytes > 0 ? l->total.seconds / l->total.seconds_bytes : 0;
	struct gd_launch_progress progress = {
		.size = sizeof(progress),
		.summary = &summary,
		.ending = l->stops_done > 0 || l->enough,
		.cancelling = l->pool_stops > 1,
		.known = rate > 0 ? GD_KNOWN_SECONDS : 0,
		.total_amount = amount_in(&l->total, rate),
		.done_amount = amount_in(&l->done, rate),
		.num_workers = l->num_workers,
		.workers = l->worker_list,
		.watching = l->watch != NULL,
	};
	double eta = eta_seconds(l, &summary, progress.total_amount, progress.done_amount);
	if (eta >= 0) {
		progress.known |= GD_KNOWN_ETA;
		progress.eta_seconds = eta;
	}
	l->options.on_progress(l->options.context, &progress);
}
