/* SPDX-License-Identifier: MIT */
#include "cli/queue_view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/cost_limit.h"
#include "base/date.h"
#include "base/error.h"
#include "cli/log_dir.h"
#include "cli/queue_place.h"
#include "cli/queue_view_parts.h"
#include "cli/run_file.h"

static int watch(struct queue_view *v, int fd)
{
	struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
	return fd < 0 ? 0 : epoll_ctl(v->epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

/* The timer replaces inotify on file systems without it, and checks whether a runner has started or ended. */
static int open_descriptors(struct queue_view *v)
{
	struct itimerspec tick = {.it_interval.tv_sec = JOURNAL_LOOK_MS / 1000, .it_value.tv_nsec = 1};
	v->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	v->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (v->epoll_fd < 0 || v->timer_fd < 0 || timerfd_settime(v->timer_fd, 0, &tick, NULL) < 0)
		return -errno;
	return watch(v, v->timer_fd);
}

static void look_for_runner(struct queue_view *v)
{
	v->runner = follow_runner(&v->follow);
	v->runner_hidden = v->runner == 0 && follow_runner_is_hidden(&v->follow);
}

bool queue_view_is_foreign(const struct queue_view *v)
{
	return v->has_queue && v->follow.reader.limits.foreign;
}

/* Launches and maps of this user. They are private: a view of another user's queue may be shown to that user. */
static void load_runs(struct queue_view *v)
{
	if (queue_view_is_foreign(v))
		(void)view_put_runs(v->model, NULL, 0);
	else
		(void)run_files_load(v->model);
}

/* The queue exists: v->follow is open. */
static int attach_queue(struct queue_view *v)
{
	v->has_queue = true;
	v->follow.jobs.context = v;
	v->follow.jobs.on_change = queue_view_on_change;
	v->log_dir = log_dir_find(&v->choice->config, v->follow.path);
	int r = v->log_dir ? watch(v, v->follow.watch_fd) : -ENOMEM;
	if (r < 0)
		return r;
	look_for_runner(v);
	r = queue_view_put_all(v);
	return r < 0 ? r : queue_view_put_peaks(v);
}

static int start_all(struct queue_view *v, struct gd_error *err)
{
	int r = queue_view_find_all(v, err);
	if (r == 0 && v->num_parts == 0 && !v->options.may_be_empty && view_num_runs(v->model) == 0)
		return error_set(err, -ENOENT, "no queues yet; add jobs with 'gpuq add' or 'gpuq run'");
	return r;
}

static int start_one(struct queue_view *v, struct gd_error *err)
{
	int r = queue_choice_follow(v->choice, true, &v->follow, err);
	/* Without a queue, show active launches, if there are any. */
	if (r == -ENOENT && (v->options.may_be_empty || view_num_runs(v->model) > 0)) {
		v->follow = (struct follow){.watch_fd = -1, .dir_fd = -1, .reader.fd = -1};
		r = 0;
	} else if (r == 0) {
		r = attach_queue(v);
		if (r == 0 && !v->options.no_gpus)
			r = queue_view_put_noted(v);
		if (r < 0)
			error_set(err, r, "cannot read journal '%s': %s", v->follow.path, error_words(r));
	}
	return r;
}

static int start(struct queue_view *v, struct gd_error *err)
{
	v->wall_offset_ns = date_now_ms() * (int64_t)NS_PER_MS - (int64_t)clock_now_ns();
	v->model = v->whole ? v->whole->model : view_model_create(v->options.history);
	int r = v->model ? open_descriptors(v) : -ENOMEM;
	if (r < 0)
		return error_set(err, r, "cannot read the queue: %s", error_words(r));
	if (!v->whole)
		load_runs(v); /* on failure, only the queue is shown */
	r = v->options.all ? start_all(v, err) : start_one(v, err);
	if (queue_view_is_foreign(v) && !v->whole)
		load_runs(v);
	return r < 0 || v->options.no_gpus ? r : queue_view_choose_gpus(v, err);
}

static struct queue_view *make(const struct queue_choice *q, const struct queue_view_options *o)
{
	struct queue_view *v = calloc(1, sizeof(*v));
	if (!v)
		return NULL;
	*v = (struct queue_view){.choice = q, .options = *o, .epoll_fd = -1, .timer_fd = -1};
	if (o->all)
		queue_view_init_all_actions(v);
	else
		queue_view_init_actions(v);
	return v;
}

int queue_view_open(
	const struct queue_choice *q, const struct queue_view_options *o, struct queue_view **ret, struct gd_error *err)
{
	struct queue_view *v = make(q, o);
	if (!v)
		return error_set(err, -ENOMEM, "cannot read journal '%s': out of memory", q->journal_path);
	int r = start(v, err);
	if (r < 0)
		queue_view_close(v);
	else
		*ret = v;
	return r;
}

/* The directory of the queue, or the path of the journal if that has another name than the default. */
static char *name_queue(const char *path)
{
	cleanup_(text_finish) struct text room = {0};
	cleanup_(freep) char *found = NULL;
	cleanup_(freep) char *personal = queue_place_personal(false, &found, NULL) < 0 ? NULL : realpath(found, NULL);
	if (personal && strcmp(personal, path) == 0)
		return strdup("personal");
	const char *file = strrchr(QUEUE_PLACE_HERE, '/'), *end = strrchr(path, '/');
	bool usual = end && end != path && strcmp(end, file) == 0;
	cleanup_(freep) char *name = strndup(path, usual ? (size_t)(end - path) : strlen(path));
	const char *words = name ? queue_view_printable(&room, name) : NULL;
	return words && !text_error(&room) ? strdup(words) : NULL;
}

int queue_view_open_part(
	struct queue_view *whole, const struct queue_choice *q, struct queue_view **ret, struct gd_error *err)
{
	if (whole->last_queue == VIEW_MAX_QUEUE)
		return error_set(
			err, -EOVERFLOW, "queue '%s': too many queues were added and removed", q->journal_path);
	struct queue_view *v = make(q, &(struct queue_view_options){.no_gpus = true});
	if (!v)
		return error_set(err, -ENOMEM, "cannot read journal '%s': out of memory", q->journal_path);
	v->whole = whole;
	v->queue = whole->last_queue + 1;
	v->queue_name = name_queue(q->journal_path);
	int r = v->queue_name ? start(v, err) : error_set(err, -ENOMEM, "cannot read the queue: out of memory");
	if (r == 0 && (r = watch(whole, v->epoll_fd)) < 0)
		error_set(err, r, "cannot show queue '%s': %s", q->journal_path, error_words(r));
	if (r < 0) {
		view_forget_queue(whole->model, v->queue);
		queue_view_close(v);
		return r;
	}
	whole->last_queue = v->queue;
	*ret = v;
	return 0;
}

void queue_view_close(struct queue_view *v)
{
	if (!v)
		return;
	queue_view_close_all(v);
	queue_view_close_gpus(v);
	queue_view_close_nodes(v);
	runner_rules_finish(&v->rules);
	if (v->has_queue)
		follow_close(&v->follow);
	if (!v->whole)
		view_model_destroy(v->model);
	free(v->queue_name);
	closep(&v->epoll_fd);
	closep(&v->timer_fd);
	id_list_finish(&v->changed);
	id_list_finish(&v->running);
	free(v->tallies);
	free(v->node_tallies);
	free(v->attempts);
	free(v->delays);
	free(v->peaks);
	text_finish(&v->command);
	text_finish(&v->name);
	free(v->log_dir);
	free(v);
}

int queue_view_fd(const struct queue_view *v)
{
	return v->epoll_fd;
}

/* Shows a queue that was created while only launches were shown. */
static int look_for_queue(struct queue_view *v, struct gd_error *err)
{
	struct follow follow;
	if (queue_choice_follow(v->choice, true, &follow, NULL) < 0)
		return 0;
	v->follow = follow;
	int r = attach_queue(v);
	return r < 0 ? error_set(err, r, "cannot read journal '%s': %s", v->follow.path, error_words(r)) : 0;
}

static int read_journal(struct queue_view *v, struct gd_error *err)
{
	if (v->follow.watch_fd >= 0)
		journal_watch_drain(v->follow.watch_fd, v->follow.path);
	int r = follow_update(&v->follow, err);
	if (r < 0)
		return r;
	r = v->error ? v->error : v->follow.reset ? queue_view_put_all(v) : queue_view_put_changed(v);
	return r < 0 ? error_set(err, r, "cannot read journal '%s': %s", v->follow.path, error_words(r)) : 0;
}

static int update(struct queue_view *v, struct gd_error *err)
{
	uint64_t ticks;
	bool tick = read(v->timer_fd, &ticks, sizeof(ticks)) > 0;
	int r = v->options.all ? queue_view_update_all(v, err)
		: v->has_queue ? read_journal(v, err)
		: tick         ? look_for_queue(v, err)
			       : 0;
	if (tick && v->has_queue) {
		look_for_runner(v);
		if (r == 0 && queue_view_put_peaks(v) < 0)
			r = error_set(err, -ENOMEM, "cannot read samples of '%s': out of memory", v->follow.path);
	}
	if (tick && !v->whole)
		load_runs(v); /* on failure, the old ones stay */
	if (v->options.no_gpus)
		return r;
	if (tick)
		/* If the GPUs are missing, none are shown; the journal still is. */
		queue_view_choose_gpus(v, NULL);
	int gpus = queue_view_read_gpus(v);
	return r == 0 && gpus < 0 ? error_set(err, gpus, "cannot query the GPUs: %s", error_words(gpus)) : r;
}

int queue_view_update(struct queue_view *v, struct gd_error *err)
{
	int r = update(v, err);
	cost_limit_stop();
	return r;
}

struct view_model *queue_view_model(struct queue_view *v)
{
	return v->model;
}

const struct view_actions *queue_view_actions(struct queue_view *v)
{
	return &v->actions;
}
