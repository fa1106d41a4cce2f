/* SPDX-License-Identifier: MIT */
/* The loop of gpuq map: input, pool and output in one thread. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "launch/map_private.h"
#include "launch/map_worker_note.h"
#include "pool/pool_hints.h"

#define ROUND_MS   100 /* between reports of progress */
#define FLUSH_MS   5   /* results are written together; this is the longest wait when nothing happens */
#define MOST_STOPS 3

/* ---- Stopping early ----------------------------------------------------- */

bool map_is_ending(const struct map *m)
{
	return atomic_load(&m->stops) > 0 || m->enough || m->no_worker || m->error;
}

void map_stop_pool(struct map *m, int stops)
{
	for (; m->pool && m->pool_stops < stops; m->pool_stops++)
		gd_pool_stop(m->pool);
}

void map_fail(struct map *m, const struct gd_error *err)
{
	if (m->error)
		return;
	m->error = err->code;
	m->reason = *err;
	map_stop_pool(m, 2);
}

void map_warn(struct map *m, const char *format, ...)
{
	char words[sizeof(((struct gd_error *)NULL)->message)];
	va_list args;
	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	if (m->options.on_warning)
		m->options.on_warning(m->options.context, words);
}

static int on_setup_fail(void *context, const struct gd_event *e)
{
	struct map *m = context;
	map_warn(m, "the worker on GPU %d is lost: %s", e->gpu, e->message);
	if (!m->reason.message[0])
		snprintf(m->reason.message, sizeof(m->reason.message), "%s", e->message);
	return 0;
}

/* ---- The loop ----------------------------------------------------------- */

static void apply_stops(struct map *m)
{
	int asked = atomic_load(&m->stops);
	uint64_t count;
	if (!asked)
		return;
	map_stop_pool(m, asked < MOST_STOPS ? asked : MOST_STOPS);
	(void)!read(m->stop_fd, &count, sizeof(count));
}

static void read_workers(struct map *m)
{
	m->summary.restarts = 0;
	for (size_t i = 0; i < m->num_workers; i++) {
		struct gd_worker_stats *w = &m->workers[i];
		(void)gd_pool_worker_stats(m->pool, (int)i, w, sizeof(*w));
		m->summary.restarts += w->restarts;
		if (!m->ready_ns && w->state != GD_WORKER_STATE_STARTING && w->state != GD_WORKER_STATE_LOST)
			m->ready_ns = clock_now_ns();
	}
}

/* Items in the messages being processed. The pool has more messages, which wait for a worker. */
static uint64_t count_running(const struct map *m, const struct map_summary *s)
{
	uint64_t busy = 0;
	for (size_t i = 0; i < m->num_workers; i++)
		busy += m->workers[i].has_task;
	uint64_t items = busy * (s->batch ? s->batch : 1);
	return items < m->items_in_pool ? items : m->items_in_pool;
}

static void report(struct map *m, bool last)
{
	uint64_t now = clock_now_ns();
	if (!last && now < m->next_progress_ns)
		return;
	m->next_progress_ns = now + ROUND_MS * NS_PER_MS;
	map_flush(m);
	read_workers(m);
	struct map_summary summary;
	map_get_summary(m, &summary);
	const struct map_progress progress = {
		.summary = &summary,
		.workers = m->workers,
		.num_workers = m->num_workers,
		.ending = map_is_ending(m),
		.cancelling = m->pool_stops > 1,
		.running = count_running(m, &summary),
	};
	if (m->options.on_progress)
		m->options.on_progress(m->options.context, &progress);
}

static bool is_over(const struct map *m)
{
	if (m->in_pool > 0)
		return false;
	return map_is_ending(m) || (m->input_over && !m->again && !m->filling);
}

static bool has_pending(const struct map *m)
{
	return m->record.output.pending.length || m->record.errors.pending.length;
}

static void wait_for_news(struct map *m)
{
	struct pollfd fds[] = {
		{.fd = gd_pool_fd(m->pool), .events = POLLIN},
		{.fd = m->stop_fd, .events = POLLIN},
		{.fd = m->wants_input ? m->input.fd : -1, .events = POLLIN},
	};
	/* Interrupted: the loop checks again. */
	if (poll(fds, 3, has_pending(m) ? FLUSH_MS : ROUND_MS) == 0)
		map_flush(m);
}

static void work(struct map *m)
{
	for (;;) {
		apply_stops(m);
		map_feed(m);
		pool_look(m->pool);
		int n = gd_pool_poll(m->pool, 0, 0);
		if (n == -ENODEV)
			m->no_worker = true;
		if (!m->ready_ns) /* the poll does not count the end of a setup as an event */
			read_workers(m);
		bool over = is_over(m);
		if (over) {
			map_flush(m);
			return;
		}
		report(m, false);
		if (n <= 0 && !m->reads_on)
			wait_for_news(m);
	}
}

/* ---- Beginning and end -------------------------------------------------- */

/* Keep results of another program: only the user knows whether they are still good. */
static void note_worker(struct map *m, const struct text *logs)
{
	cleanup_(text_finish) struct text before = {0};
	if (!logs->length || map_worker_note(text_string(logs), &m->options, &before) != 1 || m->record.count == 0)
		return;
	map_warn(m,
		"keeping %llu result%s of another worker, '%.200s', in '%s'; choose another --output to process all items with this worker",
		(unsigned long long)m->record.count, m->record.count == 1 ? "" : "s", text_string(&before),
		m->record.output.name);
}

static int open_pool(struct map *m, struct gd_error *err)
{
	const struct map_options *o = &m->options;
	cleanup_(text_finish) struct text logs = {0};
	cleanup_(freep) char **argv = NULL;
	int r = launch_worker_argv(&m->worker, true, &argv, err);
	if (r == 0)
		r = map_record_make_logs(&m->record, o->trust, &logs, err);
	if (r < 0)
		return r;
	note_worker(m, &logs);
	const struct gd_options pool = {
		.size = sizeof(pool),
		.worker_argv = (const char *const *)argv,
		.gpus = o->gpus,
		.workers_per_gpu = o->workers_per_gpu,
		.settings = o->settings,
		.num_settings = o->num_settings,
		.task_timeout_ms = o->timeout_ms,
		.output = logs.length ? GD_OUTPUT_FILES : GD_OUTPUT_INHERIT,
		.output_dir = logs.length ? text_string(&logs) : NULL,
		.fair_start = 1,
	};
	const struct gd_callbacks callbacks = {
		.size = sizeof(callbacks),
		.context = m,
		.on_success = map_on_success,
		.on_error = map_on_failure,
		.on_timeout = map_on_failure,
		.on_setup_fail = on_setup_fail,
	};
	return pool_open_trusted(&pool, &callbacks, &m->pool, err);
}

static int watch_workers(struct map *m, struct gd_error *err)
{
	struct gd_stats stats;
	gd_pool_stats(m->pool, &stats, sizeof(stats));
	m->num_workers = stats.workers;
	m->workers = calloc(m->num_workers, sizeof(*m->workers));
	return m->workers ? 0 : error_set(err, -ENOMEM, "cannot start the workers: out of memory");
}

static bool same_file(int a, int b)
{
	struct stat x, y;
	return a >= 0 && b >= 0 && fstat(a, &x) == 0 && fstat(b, &y) == 0 && S_ISREG(x.st_mode) &&
	       x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Warns only in the run that creates the file; later runs continue it. */
static void warn_if_private(struct map *m)
{
	const struct map_file *output = &m->record.output, *errors = &m->record.errors;
	const char *name = output->created ? output->name : errors->created ? errors->name : NULL;
	if (m->record.is_private && name)
		map_warn(m,
			"created '%s' with mode 0600, because other users can choose what input '%s' contains; to let others read it: chmod 644 '%s'",
			name, m->input.name, name);
}

static int open_files(struct map *m, struct gd_error *err)
{
	const struct map_options *o = &m->options;
	/* Another user may have chosen a private file as the input. */
	m->record.is_private = m->input.replaceable && !o->trust;
	int r = map_record_open(&m->record, o->output, o->errors, o->trust, err);
	if (r < 0)
		return r;
	warn_if_private(m);
	int output = m->record.output.fd, errors = m->record.errors.fd;
	if (same_file(m->input.fd, output) || same_file(m->input.fd, errors))
		return error_set(err, -EINVAL, "'%s' is the input file; choose another --output", m->input.name);
	if (same_file(output, errors))
		return error_set(err, -EINVAL, "--output and --errors are the same file; omit --errors");
	return m->input.regular ? map_survey(m, err) : 0;
}

/* Failed items are retried only if the whole record is known to belong to this input, and not with --ordered. */
static int retry_failed(struct map *m, struct gd_error *err)
{
	if (!m->input.regular || m->options.ordered || atomic_load(&m->stops))
		return 0;
	m->summary.tried_again = m->record.failed;
	return map_record_retry_failed(&m->record, err);
}

static int begin(struct map *m, struct gd_error *err)
{
	int r = open_files(m, err);
	if (r == 0)
		r = retry_failed(m, err);
	if (r == 0 && m->summary.total_known && m->record.count == m->summary.total) {
		m->summary.skipped = m->record.count;
		m->input_over = true;
		return 0;
	}
	/* Called before the pool is opened, because workers inherit the current standard error. */
	if (r == 0 && m->options.on_start)
		m->options.on_start(m->options.context, &m->summary);
	if (r == 0)
		r = open_pool(m, err);
	return r == 0 ? watch_workers(m, err) : r;
}

static int end(struct map *m, struct gd_error *err)
{
	struct gd_error why = {0};
	read_workers(m);
	m->end_ns = clock_now_ns();
	if (gd_pool_close(m->pool, NULL, 0, &why) < 0)
		map_warn(m, "%s", why.message);
	m->pool = NULL;
	map_count_rest(m);
	if (!m->error && map_record_sync(&m->record, &why) < 0)
		map_fail(m, &why);
	struct map_summary summary;
	map_get_summary(m, &summary);
	bool complete = m->input_over && summary.left == 0;
	if (m->error)
		return error_set(err, m->error, "%s", m->reason.message);
	if (atomic_load(&m->stops) > 0 && !complete)
		return error_set(err, -ECANCELED, "interrupted");
	if (m->no_worker)
		return error_set(err, -ECHILD, "no worker is left: %s",
			m->reason.message[0] ? m->reason.message : "all workers have ended");
	if (m->enough)
		return error_set(err, -EDQUOT, "%s", m->reason.message);
	return map_check_end(m, summary.left, err);
}

int map_run(struct map *m, struct gd_error *err)
{
	m->start_ns = clock_now_ns();
	int r = begin(m, err);
	if (r < 0 || !m->pool) {
		(void)gd_pool_close(m->pool, NULL, 0, NULL);
		m->pool = NULL;
		m->end_ns = clock_now_ns();
		return r;
	}
	work(m);
	report(m, true);
	return end(m, err);
}
