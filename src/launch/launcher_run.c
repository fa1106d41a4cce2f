/* SPDX-License-Identifier: MIT */
/* The run: files to workers, results to the balancer and the history. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/trust.h"
#include "launch/file_task.h"
#include "launch/find.h"
#include "launch/launcher_private.h"
#include "pool/pool_hints.h"

#define ROUND_MS   100 /* between checks of progress and durations */
#define MOST_STOPS 3
#define LOGS_NAME  "launch.logs"

bool launcher_is_ending(const struct gd_launcher *l)
{
	return l->stops_done > 0 || l->enough || l->no_worker_left;
}

/* ---- Callbacks of the pool ---------------------------------------------------- */

static int on_success(void *context, const struct gd_event *e)
{
	struct gd_launcher *l = context;
	size_t i = (size_t)(uintptr_t)e->tag;
	launcher_learn_seconds(l, i, file_result_seconds(&e->result));
	launcher_put_result(l, i, e, NULL);
	return 0;
}

/* A file that was stopped or reached no worker has not failed: it is left for the next run. */
static int on_failure(void *context, const struct gd_event *e)
{
	struct gd_launcher *l = context;
	if (launcher_remote_put_back(l, e))
		return 0;
	if (e->failure == GD_FAILURE_NO_WORKER)
		l->no_worker_left = true;
	if (e->failure == GD_FAILURE_CANCELLED || e->failure == GD_FAILURE_NO_WORKER || l->pool_stops > 1)
		return 0;
	launcher_put_result(l, (size_t)(uintptr_t)e->tag, e, e->message[0] ? e->message : gd_failure_name(e->failure));
	launcher_check_failures(l);
	return 0;
}

static int on_setup_fail(void *context, const struct gd_event *e)
{
	struct gd_launcher *l = context;
	launcher_warn(l, l->remote ? "worker %d is lost: %s" : "the worker on GPU %d is lost: %s", e->gpu, e->message);
	if (!l->reason[0])
		snprintf(l->reason, sizeof(l->reason), "%s", e->message);
	return 0;
}

/* Messages of gpuq-worker; hooks of other programs may send anything. */
static int on_message(void *context, const struct gd_event *e)
{
	struct gd_launcher *l = context;
	struct worker_note note;
	if (launcher_remote_note(l, e))
		return 0;
	if (l->worker.kind == LAUNCH_PROGRAM && worker_note_read(&e->result, &note) == 0)
		launcher_take_note(l, e, &note);
	return 0;
}

/* ---- The loop --------------------------------------------------------------- */

/* The user's stops and the stop of max_failures do not add up: the first stop lets running files finish. */
void launcher_stop_pool(struct gd_launcher *l, int stops)
{
	for (; l->pool_stops < stops; l->pool_stops++)
		gd_pool_stop(l->pool);
}

static void apply_stops(struct gd_launcher *l)
{
	int asked = atomic_load(&l->stops);
	uint64_t count;
	l->stops_done = asked < MOST_STOPS ? asked : MOST_STOPS;
	launcher_stop_pool(l, l->stops_done);
	if (asked)
		(void)!read(l->stop_fd, &count, sizeof(count));
}

bool launcher_has_no_work(const struct gd_launcher *l)
{
	return gd_pool_outstanding(l->pool) == 0 && launch_queue_left(&l->queue) == 0;
}

static bool is_loading(const struct gd_launcher *l)
{
	for (size_t i = 0; i < l->num_workers; i++) {
		struct gd_worker_stats w;
		if (gd_pool_worker_stats(l->pool, (int)i, &w, sizeof(w)) == 0 && w.state == GD_WORKER_STATE_STARTING)
			return true;
	}
	return false;
}

/* Idle time occurs only with a watched folder; model loading is counted separately. */
static void measure_idle(struct gd_launcher *l)
{
	uint64_t now = clock_now_ns();
	if (l->idle_since_ns)
		l->idle_ns += now - l->idle_since_ns;
	l->idle_since_ns = l->watch && launcher_has_no_work(l) && !is_loading(l) ? now : 0;
}

static bool is_over(const struct gd_launcher *l)
{
	return launcher_is_ending(l) ? gd_pool_outstanding(l->pool) == 0 : !l->watch && launcher_has_no_work(l);
}

static void wait_for_news(const struct gd_launcher *l)
{
	struct pollfd fds[] = {
		{.fd = gd_pool_fd(l->pool), .events = POLLIN}, {.fd = l->stop_fd, .events = POLLIN},
		{.fd = launcher_watch_fd(l), .events = POLLIN}, /* -1 is ignored */
	};
	(void)poll(fds, 3, l->feeding ? 0 : ROUND_MS); /* interrupted: check again */
}

int launcher_serve(struct gd_launcher *l)
{
	apply_stops(l);
	launcher_take_durations(l);
	int n = gd_pool_poll(l->pool, 0, 0);
	if (n == -ENODEV)
		l->no_worker_left = true;
	launcher_feed(l); /* after the poll, which has updated the free workers */
	launcher_flush_history(l);
	measure_idle(l);
	launcher_progress(l, false);
	return n;
}

static void work(struct gd_launcher *l)
{
	for (;;) {
		apply_stops(l);
		launcher_watch_turn(l);
		int n = launcher_serve(l);
		if (is_over(l))
			return;
		if (n == 0)
			wait_for_news(l);
	}
}

/* ---- Beginning and end ------------------------------------------------------ */

static int open_history(struct gd_launcher *l, struct gd_error *err)
{
	char path[PATH_MAX + sizeof(HISTORY_NAME) + 1];
	int r = launcher_open_output(l, err);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s/" HISTORY_NAME, l->output_root);
	r = history_writer_open(&l->writer, path, !l->options.trust_output_dir, err);
	if (r < 0)
		return r;
	/* Another launcher wrote between our load and our lock, or it is another folder: include its results. */
	int64_t size = history_writer_size(&l->writer);
	bool current = l->planned && size >= 0 && (uint64_t)size == l->history.size_read;
	return current ? 0 : launcher_plan(l, err);
}

static int open_input(struct gd_launcher *l, struct gd_error *err)
{
	l->input_fd = fcntl(find_root(l->files), F_DUPFD_CLOEXEC, 3);
	if (l->input_fd < 0)
		return error_set(
			err, -errno, "cannot open input folder '%s': %s", l->files->folder, error_words(-errno));
	l->input_replaceable = trust_check_way(l->input_fd, NULL) < 0;
	return 0;
}

static int fill_queue(struct gd_launcher *l, struct gd_error *err)
{
	cleanup_(freep) size_t *numbers = calloc(l->num_todo + 1, sizeof(*numbers));
	for (size_t i = 0; numbers && i < l->num_todo; i++) {
		numbers[i] = i;
		launch_amount_add(&l->total, l->todo[i]);
	}
	int r = numbers ? launcher_queue_files(l, numbers, l->num_todo) : -ENOMEM;
	return r < 0 ? error_set(err, r, "cannot distribute %zu files: %s", l->num_todo, error_words(r)) : 0;
}

static int make_balancer(struct gd_launcher *l, struct gd_error *err)
{
	size_t count = l->remote ? 0 : l->gpus->count; /* remote GPUs are known when they have joined */
	cleanup_(freep) int *gpus = calloc(count + 1, sizeof(*gpus));
	for (size_t i = 0; gpus && i < count; i++)
		gpus[i] = l->gpus->gpus[i]->index;
	if (!gpus || gd_balancer_create(gpus, count, &l->balancer) < 0)
		return error_set(err, -ENOMEM, "not enough memory for the results");
	gd_balancer_expect(l->balancer, l->files->count, l->num_skipped);
	return 0;
}

static int make_logs(struct gd_launcher *l, struct text *ret_path, struct gd_error *err)
{
	text_appendf(ret_path, "%s/" LOGS_NAME, l->output_root);
	int r = l->options.output == GD_OUTPUT_FILES ? outputs_make_private(l->output_fd, LOGS_NAME) : 0;
	return r < 0 ? error_set(err, r, "cannot create folder '%s': %s", text_string(ret_path),
			       r == -EPERM ? "it was created by another user; remove it" : error_words(r))
		     : 0;
}

static int start_remote(struct gd_launcher *l, struct gd_error *err)
{
	cleanup_(text_finish) struct text logs = {0};
	int r = make_logs(l, &logs, err);
	bool to_files = l->options.output == GD_OUTPUT_FILES;
	return r < 0 ? r : launcher_remote_start(l, to_files ? text_string(&logs) : NULL, err);
}

static int start_workers(struct gd_launcher *l, struct gd_error *err)
{
	const struct gd_launch_options *o = &l->options;
	cleanup_(text_finish) struct text logs = {0};
	cleanup_(freep) char **argv = NULL;
	int r = l->worker.kind ? launch_worker_argv(&l->worker, true, &argv, err) : 0;
	if (r == 0)
		r = make_logs(l, &logs, err);
	if (r < 0)
		return r;
	struct gd_options pool = {
		.size = sizeof(pool),
		.worker = o->worker,
		.worker_argv = (const char *const *)argv,
		.allow_threads = o->allow_threads,
		.gpus = o->gpus,
		.workers_per_gpu = o->workers_per_gpu,
		.settings = o->settings,
		.num_settings = o->num_settings,
		.total_tasks = o->watch ? 0 : l->num_todo,
		.retries = o->retries,
		.task_timeout_ms = o->task_timeout_ms,
		.setup_timeout_ms = o->setup_timeout_ms,
		.setup_concurrency = o->setup_concurrency,
		.output = o->output,
		.output_dir = o->output == GD_OUTPUT_FILES ? text_string(&logs) : NULL,
	};
	if (l->remote)
		launcher_remote_options(l, &pool);
	const struct gd_callbacks callbacks = {
		.size = sizeof(callbacks),
		.context = l,
		.on_success = on_success,
		.on_error = on_failure,
		.on_timeout = on_failure,
		.on_message = on_message,
		.on_setup_fail = on_setup_fail,
	};
	r = pool_open_trusted(&pool, &callbacks, &l->pool, err);
	if (r == -EBUSY && o->worker)
		return error_set(err, r,
			"this program has threads, so its hooks cannot be forked: set worker_argv or plugin of struct gd_launch_options instead of worker, or set allow_threads if the hooks use no lock of other threads");
	return r;
}

static int watch_workers(struct gd_launcher *l, struct gd_error *err)
{
	struct gd_stats stats;
	gd_pool_stats(l->pool, &stats, sizeof(stats));
	l->num_workers = stats.workers;
	l->worker_states = calloc(l->num_workers + 1, sizeof(*l->worker_states));
	l->worker_list = calloc(l->num_workers + 1, sizeof(*l->worker_list));
	l->last_end_ns = calloc(l->num_workers + 1, sizeof(*l->last_end_ns));
	l->reloading_ns = calloc(l->num_workers + 1, sizeof(*l->reloading_ns));
	if (!l->worker_states || !l->worker_list || !l->last_end_ns || !l->reloading_ns)
		return error_set(err, -ENOMEM, "not enough memory for %zu workers", l->num_workers);
	for (size_t i = 0; i < l->num_workers; i++) {
		struct launcher_worker *w = &l->worker_states[i];
		w->public = (struct gd_launch_worker){.size = sizeof(w->public), .stats = &w->stats};
		l->worker_list[i] = &w->public;
	}
	return 0;
}

static int begin(struct gd_launcher *l, struct gd_error *err)
{
	int r = open_history(l, err);
	if (r == 0)
		r = open_input(l, err);
	if (r == 0) /* after open_history(), which may plan again */
		r = fill_queue(l, err);
	if (r == 0 && l->remote)
		r = start_remote(l, err);
	if (r == 0)
		r = make_balancer(l, err);
	if (r == 0)
		r = start_workers(l, err);
	if (r == 0)
		r = watch_workers(l, err);
	if (r < 0)
		return r;
	if (l->options.watch && (r = launcher_watch_open(l)) < 0)
		return error_set(err, r, "cannot watch '%s': %s", l->options.input_dir, error_words(r));
	const struct history_run run = {
		.input = launcher_input_name(l),
		.worker = text_string(&l->worker_words),
		.fingerprint = l->fingerprint,
		.settings = l->options.settings,
		.num_settings = l->options.num_settings,
		/* gpu_dispatch.multigpu takes results only from a record with its mark. */
		.mark = getenv("GPUQ_LAUNCH_MARK"),
	};
	history_writer_add_run(&l->writer, &run);
	return 0;
}

/* Files whose results are not recorded are processed again by the next run: the user must know. */
static void end_history(struct gd_launcher *l)
{
	launcher_flush_history(l);
	unsigned long long lost = history_writer_unwritten(&l->writer);
	if (lost) {
		l->unrecorded = lost;
		launcher_warn(l,
			"%llu result%s could not be recorded in '%s/" HISTORY_NAME
			"': %s; the next run will process %s again",
			lost, lost == 1 ? "" : "s", l->options.output_dir, error_words(l->history_error),
			lost == 1 ? "this file" : "these files");
		return;
	}
	int r = history_writer_sync(&l->writer);
	if (r < 0)
		launcher_warn(
			l, "cannot write '%s/" HISTORY_NAME "' to disk: %s", l->options.output_dir, error_words(r));
}

static int end(struct gd_launcher *l, struct gd_error *err)
{
	launcher_look_at_workers(l);
	gd_balancer_stop_clock(l->balancer);
	struct gd_error why = {0};
	if (gd_pool_close(l->pool, NULL, 0, &why) < 0)
		launcher_warn(l, "%s", why.message);
	l->pool = NULL;
	launcher_await_durations(l); /* the workers have ended: no GPU waits */
	durations_stop(l->durations);
	l->durations = NULL;
	end_history(l);
	launcher_progress(l, true);
	struct gd_launch_summary summary;
	gd_launcher_summary(l, &summary, sizeof(summary));
	/* A stop after everything was done has not interrupted anything. */
	if (atomic_load(&l->stops) > 0 && summary.files_left > 0)
		return error_set(err, -ECANCELED, "interrupted");
	if (l->no_worker_left)
		return error_set(
			err, -ECHILD, "no worker is left: %s", l->reason[0] ? l->reason : "all workers have ended");
	if (l->enough)
		return error_set(err, -EDQUOT, "%s", l->reason);
	return 0;
}

/* Nothing was begun: do not return values that describe the outcome of a run. */
static int plain_error(int r)
{
	return r == -EDQUOT ? -ENOSPC : r == -ECHILD ? -EIO : r;
}

int gd_launcher_run(struct gd_launcher *l, struct gd_error *err)
{
	if (l->has_run)
		return error_set(err, -EALREADY, "a launcher can run only once");
	if (l->no_worker.code)
		return error_set(err, l->no_worker.code, "%s", l->no_worker.message);
	int r = l->planned ? 0 : launcher_plan(l, err);
	if (r < 0)
		return r;
	l->has_run = true;
	r = l->num_todo == 0 && !l->options.watch ? make_balancer(l, err) : begin(l, err);
	if (r < 0) {
		(void)gd_pool_close(l->pool, NULL, 0, NULL);
		l->pool = NULL;
		r = plain_error(r);
		if (err)
			err->code = r;
		return r;
	}
	l->begun = true;
	if (!l->pool)
		return 0;
	work(l);
	return end(l, err);
}
