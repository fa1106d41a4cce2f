/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/sized.h"
#include "pool/binding.h"
#include "pool/options.h"
#include "pool/pool_private.h"
#include "pool/worker.h"

/* ---- Opening ------------------------------------------------------------ */

#define TASK_EXITING 0x4u /* the kernel's PF_EXITING */

/*
 * A joined thread, such as our own of the last run, is still listed for a moment: threads that are exiting do not
 * count.
 */
static bool is_exiting(int tasks_fd, const char *tid)
{
	char path[NAME_MAX + 8], buf[512];
	snprintf(path, sizeof(path), "%s/stat", tid);
	cleanup_(closep) int fd = openat(tasks_fd, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);
	if (n <= 0)
		return true; /* gone meanwhile */
	buf[n] = '\0';
	const char *after_name = strrchr(buf, ')');
	unsigned flags;
	return after_name && sscanf(after_name + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) == 1 &&
	       (flags & TASK_EXITING);
}

static int count_threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	if (!dir)
		return 0;
	int threads = 0;
	for (struct dirent *e; (e = readdir(dir));)
		threads += e->d_name[0] != '.' && !is_exiting(dirfd(dir), e->d_name);
	closedir(dir);
	return threads;
}

/* A forked child inherits locks that other threads hold, but not the threads. */
static int check_threads(const struct gd_options *o, struct gd_error *err)
{
	if (o->worker_argv || o->allow_threads)
		return 0;
	int threads = count_threads();
	if (threads <= 1)
		return 0;
	return error_set(err, -EBUSY,
		"this program has %d threads, so its workers cannot be forked: set worker_argv to a program that calls gd_worker_main(), or set allow_threads if the hooks use no lock of other threads",
		threads);
}

static int watch_fd(struct gd_pool *p, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
	return epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int open_fds(struct gd_pool *p)
{
	p->epoll_fd = file_above_stdio(epoll_create1(EPOLL_CLOEXEC));
	if (p->epoll_fd < 0)
		return p->epoll_fd;
	p->event_fd = file_above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (p->event_fd < 0)
		return p->event_fd;
	p->timer_fd = file_above_stdio(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	if (p->timer_fd < 0)
		return p->timer_fd;
	int r = watch_fd(p, p->event_fd);
	return r < 0 ? r : watch_fd(p, p->timer_fd);
}

static int make_slots(struct gd_pool *p, const struct bindings *bindings)
{
	p->slots = calloc(p->num_slots, sizeof(*p->slots));
	if (!p->slots)
		return -ENOMEM;
	for (size_t i = 0; i < p->num_slots; i++)
		p->slots[i].socket = -1;
	for (size_t i = 0; i < p->num_slots; i++) {
		int r = slot_init(&p->slots[i], (int)i, &bindings->items[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

static int make_queue(struct gd_pool *p)
{
	const struct gd_options *o = &p->options;
	size_t in_hand = 1;
	if (o->worker && o->worker->process_batch)
		in_hand = o->worker->max_batch ? o->worker->max_batch : WORKER_DEFAULT_BATCH;
	p->limit = (size_t)o->queue_size + p->num_slots * in_hand;
	p->alive = p->num_slots;
	int r = backlog_init(&p->backlog, p->limit);
	if (r >= 0)
		r = backlog_init(&p->again, p->limit);
	if (r >= 0)
		r = backlog_init(&p->cancelled, p->limit);
	if (r >= 0 && o->ordered)
		r = held_results_init(&p->held, p->limit);
	return r;
}

static void pool_free(struct gd_pool *p)
{
	for (size_t i = 0; p->slots && i < p->num_slots; i++)
		slot_finish(&p->slots[i]);
	free(p->slots);
	plan_free(p);
	if (p->backlog.tasks)
		backlog_finish(&p->backlog);
	if (p->again.tasks)
		backlog_finish(&p->again);
	if (p->cancelled.tasks)
		backlog_finish(&p->cancelled);
	held_results_finish(&p->held);
	int fds[3] = {p->epoll_fd, p->event_fd, p->timer_fd};
	for (int i = 0; i < 3; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->room);
	free(p->program);
	free(p->output_dir);
	free(p);
}

static int keep_names(struct gd_pool *p)
{
	const struct gd_options *o = &p->options;
	p->program = o->worker_argv ? strdup(o->worker_argv[0]) : NULL;
	p->output_dir = o->output_dir ? strdup(o->output_dir) : NULL;
	return (o->worker_argv && !p->program) || (o->output_dir && !p->output_dir) ? -ENOMEM : 0;
}

/* Everything before the fork. */
static int pool_prepare(struct gd_pool *p, struct gd_error *err)
{
	const struct gd_options *o = &p->options;
	int r = check_threads(o, err);
	if (r < 0)
		return r;
	cleanup_(bindings_finish) struct bindings bindings = {0};
	r = bindings_choose(o, &bindings, err);
	if (r < 0)
		return r;
	p->num_slots = bindings.count;
	r = keep_names(p);
	if (r >= 0)
		r = open_fds(p);
	if (r >= 0)
		r = make_slots(p, &bindings);
	if (r >= 0)
		r = make_queue(p);
	if (r < 0)
		return error_set(err, r, "cannot open a pool of %zu workers: %s", p->num_slots, error_words(r));
	return plan_fill(p, &bindings, err);
}

static int start_warden(struct gd_pool *p, struct gd_error *err)
{
	int r = warden_start(&p->plan, &p->warden, err);
	if (r < 0)
		return r;
	r = watch_fd(p, p->warden.socket);
	if (r >= 0)
		return 0;
	warden_order(&p->warden, (struct warden_order){.kind = WARDEN_ORDER_END}, NULL, 0);
	warden_finish(&p->warden, clock_now_ns() + NS_PER_S);
	return error_set(err, r, "cannot watch the warden process: %s", error_words(r));
}

/* The workers start from the warden's memory: whatever else the options point to is not needed anymore. */
static void forget_caller(struct gd_pool *p)
{
	struct gd_options *o = &p->options;
	o->gpus = o->output_dir = NULL;
	o->gpu_ids = NULL;
	o->worker_argv = p->plan.argv = NULL;
	o->worker_env = NULL;
	o->settings = NULL;
	o->num_gpu_ids = o->num_settings = 0;
}

static int pool_open(const struct gd_options *options, const struct gd_callbacks *callbacks, bool trust_output,
	struct gd_pool **ret, struct gd_error *err)
{
	struct gd_pool *p = calloc(1, sizeof(*p));
	if (!p)
		return error_set(err, -ENOMEM, "not enough memory for a pool");
	int r = callbacks_read(&p->callbacks, callbacks, err);
	if (r >= 0)
		r = options_read(options, &p->options, &p->ops, err);
	if (r < 0) {
		free(p);
		return r;
	}
	p->epoll_fd = p->event_fd = p->timer_fd = p->settings_fd = -1;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->room, NULL);
	p->poller = pthread_self();
	p->trust_output = trust_output;
	p->fair = p->options.fair_start != 0;
	p->stats.start_ns = clock_now_ns();
	r = pool_prepare(p, err);
	if (r >= 0)
		r = start_warden(p, err);
	close_fd(&p->settings_fd); /* the warden has it now */
	if (r < 0) {
		pool_free(p);
		return r;
	}
	forget_caller(p);
	for (size_t i = 0; i < p->num_slots; i++)
		pool_start_worker(p, &p->slots[i]);
	*ret = p;
	return 0;
}

int gd_pool_open(const struct gd_options *options, const struct gd_callbacks *callbacks, struct gd_pool **ret,
	struct gd_error *err)
{
	return pool_open(options, callbacks, false, ret, err);
}

int pool_open_trusted(const struct gd_options *options, const struct gd_callbacks *callbacks, struct gd_pool **ret,
	struct gd_error *err)
{
	return pool_open(options, callbacks, true, ret, err);
}

void pool_serve_run(struct gd_pool *p, void (*on_gone)(void *context), void *context)
{
	p->on_gone = on_gone;
	p->gone_context = context;
}

void gd_pool_expect_no_more(struct gd_pool *p)
{
	atomic_store(&p->no_more, true);
}

/* ---- Closing ------------------------------------------------------------ */

/* Called again in every turn: a worker can be asked to leave only when it is ready. */
static void close_workers(struct gd_pool *p)
{
	for (size_t i = 0; i < p->num_slots; i++)
		pool_close_worker(p, &p->slots[i]);
}

/*
 * Waits for the warden's next report or a worker's next record. The warden limits the time of everything that this
 * waits for. A warden that is silent for this long is stopped or stuck; it is killed, which ends its workers. Checked
 * twice, because the whole machine may have been suspended.
 */
static void wait_at_end(struct gd_pool *p, bool for_tasks)
{
	uint64_t limit_ns = p->plan.kill_wait_ns + NS_PER_S;
	if (p->stop_done < 3)
		limit_ns += p->plan.grace_ns + p->plan.cleanup_timeout_ns;
	uint64_t end_ns = clock_now_ns() + limit_ns;
	pool_wait(p, end_ns, for_tasks);
	if (clock_now_ns() < end_ns || p->warden_gone)
		return;
	end_ns = clock_now_ns() + NS_PER_S;
	pool_wait(p, end_ns, for_tasks);
	if (clock_now_ns() >= end_ns && !p->warden_gone)
		(void)pidref_signal(&p->warden.process, SIGKILL);
}

static void wait_turn(struct gd_pool *p)
{
	pool_turn(p);
	close_workers(p);
	atomic_store(&p->interrupted, false);
	if (p->alive > 0)
		wait_at_end(p, false);
}

int gd_pool_close(struct gd_pool *p, struct gd_stats *ret_stats, size_t stats_size, struct gd_error *err)
{
	if (!p)
		return 0;
	if (p->in_callback)
		return error_set(err, -EDEADLK, "gd_pool_close() cannot be called inside a callback");
	if (pool_outstanding(p) > 0) {
		int asked = 0;
		while (asked < 2 && !atomic_compare_exchange_weak(&p->stop, &asked, 2))
			;
		while (pool_outstanding(p) > 0) {
			pool_turn(p);
			atomic_store(&p->interrupted, false);
			if (pool_outstanding(p) > 0)
				wait_at_end(p, true);
		}
	}
	pthread_mutex_lock(&p->lock);
	p->closing = true;
	pool_close_queue(p, -ESHUTDOWN);
	pthread_mutex_unlock(&p->lock);
	setups_end(p);
	close_workers(p);
	while (p->alive > 0)
		wait_turn(p);
	warden_order(&p->warden, (struct warden_order){.kind = WARDEN_ORDER_END}, NULL, 0);
	warden_finish(&p->warden, clock_now_ns() + p->plan.kill_wait_ns + NS_PER_S);

	pthread_mutex_lock(&p->lock);
	p->stats.end_ns = clock_now_ns();
	pthread_mutex_unlock(&p->lock);
	pool_progress(p, true);
	struct gd_stats stats;
	gd_pool_stats(p, &stats, sizeof(stats));
	p->in_callback = true;
	if (p->on_gone)
		p->on_gone(p->gone_context);
	if (p->callbacks.on_exit)
		p->callbacks.on_exit(p->callbacks.context, &stats);
	if (ret_stats)
		sized_write(ret_stats, stats_size, &stats, sizeof(stats));
	bool stuck = p->stuck;
	pool_free(p);
	return stuck ? error_set(err, -EBUSY, "a worker could not be killed: it is stuck in the kernel or frozen") : 0;
}
