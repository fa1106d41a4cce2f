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
#include "launch/file_task.h"
#include "launch/launcher_private.h"

#define ROUND_MS       100  /* between looks at progress and durations */
#define AHEAD_SECONDS  0.02 /* work that waits in the pool, per worker */
#define AHEAD_MAX      256  /* files */
#define SORT_AGAIN_MIN 16

static bool is_ending(const struct gd_launcher *l)
{
	return l->stops_done > 0 || l->enough || l->no_worker;
}

/* ---- Results --------------------------------------------------------------- */

static void set_seconds(struct gd_launcher *l, size_t i, double seconds)
{
	launch_amount_remove(&l->total, &l->todo[i]);
	l->todo[i].seconds = seconds;
	launch_amount_add(&l->total, &l->todo[i]);
}

/* A file whose duration nobody has read yet is over already: then it is read here. */
static void learn_seconds(struct gd_launcher *l, size_t i, double told)
{
	double seconds = told >= 0 ? told : l->todo[i].seconds;
	if (seconds < 0 && l->durations)
		seconds = durations_get(l->durations, i);
	if (seconds < -1) {
		cleanup_(text_finish) struct text path = {0};
		text_appendf(&path, "%s/%s", l->files->folder, l->todo[i].path);
		seconds = text_error(&path) ? -1 : l->options.seconds(l->options.context, text_string(&path));
	}
	if (l->durations)
		durations_known(l->durations, i, seconds);
	if (seconds >= 0 && seconds != l->todo[i].seconds)
		set_seconds(l, i, seconds);
}

static void flush_history(struct gd_launcher *l)
{
	int r = history_flush(&l->history);
	if (r == 0 || l->history_error)
		return;
	l->history_error = r;
	launcher_warn(l, "recording results in '%s/" HISTORY_NAME "': %s; it is tried again with each result",
		l->options.output_dir, error_words(r));
}

static void put_result(struct gd_launcher *l, size_t i, const struct gd_event *e, const char *error)
{
	const struct gd_found *f = &l->todo[i];
	bool worked = e && e->started_ns && e->ended_ns > e->started_ns;
	struct gd_file_result result = {
		.file = f->path,
		.error = error,
		.gpu = e ? e->gpu : -1,
		.size_bytes = f->size_bytes,
		.audio_seconds = f->seconds,
		.processing_seconds = worked ? (double)(e->ended_ns - e->started_ns) / (double)NS_PER_S : 0,
	};
	struct history_entry entry = {
		.file = f->path,
		.output = l->output_of[i],
		.size_bytes = f->size_bytes,
		.mtime_ns = f->mtime_ns,
		.audio_seconds = f->seconds,
		.processing_seconds = result.processing_seconds,
		.done = !error,
	};
	memcpy(entry.fingerprint, l->fingerprint, sizeof(entry.fingerprint));
	history_add(&l->history, &entry, result.gpu, e ? e->attempt : 0, error);
	launch_amount_add(&l->done, f);
	if (gd_balancer_add(l->balancer, &result) < 0 || error)
		l->result = 1;
	if (l->options.on_result)
		l->options.on_result(l->options.context, &result);
}

static void check_failures(struct gd_launcher *l)
{
	struct gd_launch_summary s;
	if (l->enough || l->options.max_failures == 0)
		return;
	gd_balancer_summary(l->balancer, &s);
	if (s.files_failed < l->options.max_failures)
		return;
	l->enough = true;
	gd_pool_stop(l->pool);
	if (!l->reason[0])
		snprintf(l->reason, sizeof(l->reason), "stopped after %llu failures, as --max-failures says",
			(unsigned long long)s.files_failed);
}

static int on_success(void *context, const struct gd_event *e)
{
	struct gd_launcher *l = context;
	size_t i = (size_t)(uintptr_t)e->tag;
	learn_seconds(l, i, file_result_seconds(&e->result));
	put_result(l, i, e, NULL);
	return 0;
}

/* What was stopped, or came to no worker, has not failed: it is left for another time. */
static int on_failure(void *context, const struct gd_event *e)
{
	struct gd_launcher *l = context;
	if (e->failure == GD_NO_WORKER)
		l->no_worker = true;
	if (e->failure == GD_CANCELLED || e->failure == GD_NO_WORKER || l->stops_done > 1)
		return 0;
	put_result(l, (size_t)(uintptr_t)e->tag, e, e->message[0] ? e->message : gd_failure_name(e->failure));
	check_failures(l);
	return 0;
}

static int on_setup_fail(void *context, const struct gd_event *e)
{
	struct gd_launcher *l = context;
	launcher_warn(l, "the worker on GPU %d is lost: %s", e->gpu, e->message);
	if (!l->reason[0])
		snprintf(l->reason, sizeof(l->reason), "%s", e->message);
	return 0;
}

/* ---- Files to workers ------------------------------------------------------- */

/* The file as it is now: what changes after this makes its result old. */
static int look_at_file(struct gd_launcher *l, size_t i)
{
	struct gd_found *f = &l->todo[i];
	struct stat st;
	if (fstatat(l->input_fd, f->path, &st, 0) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (!(st.st_mode & S_IROTH) && faccessat(l->input_fd, f->path, R_OK, AT_EACCESS) < 0)
		return -errno;
	if ((uint64_t)st.st_size != f->size_bytes) {
		launch_amount_remove(&l->total, f);
		f->size_bytes = (uint64_t)st.st_size;
		launch_amount_add(&l->total, f);
	}
	f->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	return 0;
}

static int send_file(struct gd_launcher *l, size_t i, const char *path, const char *output)
{
	size_t length;
	const char *name = outputs_stem(l->todo[i].path, &length);
	char stem[NAME_MAX + 1];
	snprintf(stem, sizeof(stem), "%.*s", (int)length, name);
	struct gd_file file = {
		.path = path,
		.output_dir = output,
		.stem = stem,
		.size_bytes = l->todo[i].size_bytes,
		.seconds = l->todo[i].seconds,
	};
	struct gd_draft *draft;
	void *data;
	size_t size = file_task_size(&file);
	int r = gd_reserve(l->pool, size, GD_NOWAIT, &draft, &data);
	if (r < 0)
		return r;
	file_task_write(&file, data);
	uint64_t id;
	r = gd_commit(draft, size, (void *)(uintptr_t)i, &id);
	if (r == 0 && id < l->num_todo) {
		l->submitted[id] = i;
		l->num_submitted = id + 1;
	}
	return r;
}

/* 1 where it is on its way or has failed, 0 where there is no room, -ENODEV where there is no worker. */
static int submit(struct gd_launcher *l, size_t i)
{
	cleanup_(text_finish) struct text path = {0}, output = {0}, words = {0};
	text_appendf(&path, "%s/%s", l->files->folder, l->todo[i].path);
	text_appendf(&output, "%s/%s", l->output_root, l->output_of[i]);
	int r = text_error(&path) || text_error(&output) ? -ENOMEM : look_at_file(l, i);
	if (r < 0) {
		text_append_string(&words, r == -ENOENT ? "the file has vanished" : error_words(r));
	} else {
		r = outputs_make_folder(l->output_fd, l->output_of[i]);
		if (r < 0)
			text_appendf(&words, "making its output folder '%s': %s", text_string(&output), error_words(r));
	}
	if (r == 0) {
		r = send_file(l, i, text_string(&path), text_string(&output));
		if (r == -EAGAIN || r == -ESHUTDOWN || r == -ENODEV)
			return r == -ENODEV ? r : 0;
		if (r < 0)
			text_appendf(&words, "handing it to a worker: %s", error_words(r));
	}
	if (r < 0) {
		put_result(l, i, NULL, text_string(&words));
		check_failures(l);
	}
	return 1;
}

/* Few, so that what is learned of durations still counts; enough for workers never to wait. */
static size_t window(const struct gd_launcher *l)
{
	struct gd_launch_summary s;
	gd_balancer_summary(l->balancer, &s);
	double ahead = 1;
	if (s.files_done > 0)
		ahead = AHEAD_SECONDS * (double)s.files_done / (s.processing_seconds + 1e-9);
	ahead = ahead < 1 ? 1 : ahead > AHEAD_MAX ? AHEAD_MAX : ahead;
	return l->num_workers * (1 + (size_t)ahead);
}

static void feed(struct gd_launcher *l)
{
	size_t most = window(l);
	while (!is_ending(l) && l->next < l->num_todo && gd_outstanding(l->pool) < most) {
		int r = submit(l, l->order[l->next]);
		if (r <= 0) {
			l->no_worker = l->no_worker || r == -ENODEV;
			return;
		}
		l->next++;
	}
}

/* ---- Durations -------------------------------------------------------------- */

static int sort_rest(struct gd_launcher *l)
{
	size_t count = l->num_todo - l->next;
	size_t *rest = l->order + l->next;
	cleanup_(freep) struct gd_found *files = calloc(count + 1, sizeof(*files));
	cleanup_(freep) size_t *order = calloc(count + 1, sizeof(*order));
	if (!files || !order)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		files[i] = l->todo[rest[i]];
	int r = gd_queue_order(files, count, GD_LONGEST_FIRST, order);
	for (size_t i = 0; r == 0 && i < count; i++)
		order[i] = rest[order[i]];
	if (r == 0)
		memcpy(rest, order, count * sizeof(*rest));
	return r;
}

/* Sorted again whenever twice as many are known: a few times in all, however many there are. */
static void take_durations(struct gd_launcher *l)
{
	if (!l->durations)
		return;
	size_t asked = durations_asked(l->durations);
	for (; l->durations_taken < asked; l->durations_taken++) {
		size_t i = durations_file(l->durations, l->durations_taken);
		double seconds = durations_get(l->durations, i);
		if (seconds >= 0 && l->todo[i].seconds < 0)
			set_seconds(l, i, seconds);
	}
	bool by_length = l->options.balance == GD_LONGEST_FIRST && !l->options.strategy;
	bool more = asked >= 2 * l->durations_sorted + SORT_AGAIN_MIN ||
		    (asked == l->num_todo && l->durations_sorted < asked);
	if (by_length && more && l->next < l->num_todo && sort_rest(l) == 0)
		l->durations_sorted = asked;
}

/* ---- The loop --------------------------------------------------------------- */

static void apply_stops(struct gd_launcher *l)
{
	int asked = atomic_load(&l->stops);
	uint64_t count;
	while (l->stops_done < asked && l->stops_done < 2) {
		l->stops_done++;
		gd_pool_stop(l->pool);
	}
	if (asked)
		(void)!read(l->stop_fd, &count, sizeof(count));
}

static bool is_over(const struct gd_launcher *l)
{
	return gd_outstanding(l->pool) == 0 && (l->next == l->num_todo || is_ending(l));
}

static void wait_for_news(const struct gd_launcher *l)
{
	struct pollfd fds[] = {
		{.fd = gd_fd(l->pool), .events = POLLIN},
		{.fd = l->stop_fd, .events = POLLIN},
	};
	(void)poll(fds, 2, ROUND_MS); /* interrupted: one looks once more */
}

static void work(struct gd_launcher *l)
{
	for (;;) {
		apply_stops(l);
		take_durations(l);
		feed(l);
		int n = gd_poll(l->pool, 0);
		if (n == -ENODEV)
			l->no_worker = true;
		flush_history(l);
		if (is_over(l))
			return;
		launcher_progress(l, false);
		if (n == 0)
			wait_for_news(l);
	}
}

/* ---- Beginning and end ------------------------------------------------------ */

static int open_history(struct gd_launcher *l, struct gd_error *err)
{
	char root[PATH_MAX], path[PATH_MAX + sizeof(HISTORY_NAME) + 1];
	const char *output = l->options.output_dir;
	int r = outputs_make_folder(AT_FDCWD, output);
	if (r == 0 && !realpath(output, root))
		r = -errno;
	if (r < 0)
		return error_set(err, r, "making the output folder '%s': %s", output, error_words(r));
	l->output_root = strdup(root);
	l->output_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (!l->output_root || l->output_fd < 0)
		return error_set(err, l->output_root ? -errno : -ENOMEM, "opening the output folder '%s'", output);
	snprintf(path, sizeof(path), "%s/" HISTORY_NAME, root);
	r = history_open(&l->history, path, err);
	if (r < 0)
		return r;
	/* Somebody else was there between our look and our lock. */
	struct stat st;
	if (fstat(l->history.fd, &st) == 0 && (uint64_t)st.st_size != l->history.size_read)
		return launcher_plan(l, err);
	return 0;
}

static int open_input(struct gd_launcher *l, struct gd_error *err)
{
	l->input_fd = open(l->files->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (l->input_fd < 0)
		return error_set(
			err, -errno, "opening the input folder '%s': %s", l->files->folder, error_words(-errno));
	return 0;
}

static int make_order(struct gd_launcher *l, struct gd_error *err)
{
	const struct gd_launch_options *o = &l->options;
	l->order = calloc(l->num_todo + 1, sizeof(*l->order));
	l->submitted = calloc(l->num_todo + 1, sizeof(*l->submitted));
	int r = l->order && l->submitted ? 0 : -ENOMEM;
	if (r == 0 && !o->strategy)
		r = gd_queue_order(l->todo, l->num_todo, o->balance, l->order);
	if (r == 0 && o->strategy) {
		cleanup_(freep) size_t *gpus = calloc(l->num_todo + 1, sizeof(*gpus));
		r = gpus ? o->strategy(o->context, l->todo, l->num_todo, l->gpus->count, gpus) : -ENOMEM;
		if (r >= 0)
			r = gd_queue_shares(gpus, l->num_todo, l->gpus->count, l->order);
	}
	for (size_t i = 0; r == 0 && i < l->num_todo; i++)
		launch_amount_add(&l->total, &l->todo[i]);
	return r < 0 ? error_set(err, r, "sharing out %zu files: %s", l->num_todo, error_words(r)) : 0;
}

static int make_balancer(struct gd_launcher *l, struct gd_error *err)
{
	size_t count = l->gpus->count;
	cleanup_(freep) int *gpus = calloc(count + 1, sizeof(*gpus));
	for (size_t i = 0; gpus && i < count; i++)
		gpus[i] = l->gpus->gpus[i].index;
	if (!gpus || gd_balancer_create(gpus, count, &l->balancer) < 0)
		return error_set(err, -ENOMEM, "no memory for the results");
	gd_balancer_expect(l->balancer, l->files->count, l->num_skipped);
	return 0;
}

static int start_workers(struct gd_launcher *l, struct gd_error *err)
{
	const struct gd_launch_options *o = &l->options;
	cleanup_(text_finish) struct text logs = {0};
	text_appendf(&logs, "%s/launch.logs", l->output_root);
	struct gd_options pool = {
		.size = sizeof(pool),
		.worker = l->worker.kind ? launch_worker_ops(&l->worker) : o->worker,
		.gpus = o->gpus,
		.workers_per_gpu = o->workers_per_gpu,
		.settings = o->settings,
		.num_settings = o->num_settings,
		.total_tasks = l->num_todo,
		.retries = o->retries,
		.task_timeout_ms = o->task_timeout_ms,
		.setup_timeout_ms = o->setup_timeout_ms,
		.output = o->output,
		.output_dir = o->output == GD_OUTPUT_FILES ? text_string(&logs) : NULL,
		.context = l,
		.on_success = on_success,
		.on_error = on_failure,
		.on_timeout = on_failure,
		.on_setup_fail = on_setup_fail,
	};
	int r = gd_spawner_start(&pool, &l->spawner, err);
	if (r < 0)
		return r;
	l->pool = gd_spawner_pool(l->spawner);
	l->num_workers = gd_spawner_count(l->spawner);
	l->worker_states = calloc(l->num_workers + 1, sizeof(*l->worker_states));
	if (!l->worker_states)
		return error_set(err, -ENOMEM, "no memory for %zu workers", l->num_workers);
	if (o->seconds && durations_start(l->files->folder, l->todo, l->order, l->num_todo, o->seconds, o->context,
				  &l->durations) < 0)
		l->durations = NULL; /* then the size must do */
	return 0;
}

static int begin(struct gd_launcher *l, struct gd_error *err)
{
	int r = open_history(l, err);
	if (r == 0)
		r = open_input(l, err);
	if (r == 0)
		r = make_order(l, err);
	if (r == 0)
		r = make_balancer(l, err);
	if (r == 0)
		r = start_workers(l, err);
	if (r < 0)
		return r;
	const struct history_run run = {
		.input = l->files->folder,
		.worker = text_string(&l->worker_words),
		.fingerprint = l->fingerprint,
		.settings = l->options.settings,
		.num_settings = l->options.num_settings,
	};
	history_add_run(&l->history, &run);
	return 0;
}

/* What of it could not be written down is done again by the next run; that must be known. */
static void end_history(struct gd_launcher *l)
{
	flush_history(l);
	unsigned long long lost = history_unwritten(&l->history);
	if (lost) {
		l->result = 1;
		launcher_warn(l,
			"%llu results could not be recorded in '%s/" HISTORY_NAME
			"': %s; these files are done again by the next run",
			lost, l->options.output_dir, error_words(l->history_error));
		return;
	}
	int r = history_sync(&l->history);
	if (r < 0)
		launcher_warn(l, "writing '%s/" HISTORY_NAME "' to disk: %s", l->options.output_dir, error_words(r));
}

static int end(struct gd_launcher *l, struct gd_error *err)
{
	gd_balancer_stop_clock(l->balancer);
	struct gd_error why = {0};
	if (gd_spawner_end(l->spawner, NULL, &why) < 0)
		launcher_warn(l, "%s", why.message);
	l->spawner = NULL;
	l->pool = NULL;
	durations_finish(l->durations);
	l->durations = NULL;
	end_history(l);
	launcher_progress(l, true);
	if (atomic_load(&l->stops) > 0)
		return error_set(err, -ECANCELED, "interrupted");
	if (l->no_worker)
		return error_set(err, 1, "no worker is left: %s", l->reason[0] ? l->reason : "all have ended");
	if (l->enough)
		return error_set(err, 1, "%s", l->reason);
	return l->result;
}

int gd_launcher_run(struct gd_launcher *l, struct gd_error *err)
{
	if (l->has_run)
		return error_set(err, -EALREADY, "a launcher runs once");
	int r = l->planned ? 0 : launcher_plan(l, err);
	if (r < 0)
		return r;
	l->has_run = true;
	if (l->num_todo == 0)
		return make_balancer(l, err);
	r = begin(l, err);
	if (r < 0) {
		(void)gd_spawner_end(l->spawner, NULL, NULL);
		l->spawner = NULL;
		return r;
	}
	if (l->num_todo > 0)
		work(l);
	return end(l, err);
}
