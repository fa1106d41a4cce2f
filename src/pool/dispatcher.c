/* SPDX-License-Identifier: MIT */
/*
 * The generator-driven loop. The generator runs in a feeder thread, so that a generator
 * that waits does not delay callbacks.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/interrupts.h"
#include "base/signals.h"
#include "base/sized.h"
#include "pool/dispatcher_private.h"
#include "pool/event_counter.h"
#include "pool/options.h"
#include "pool/pool_hints.h"
#include "pool/run_options.h"

SIZED_NO_TAIL(gd_run, base_seed);

void dispatcher_nudge(struct gd_dispatcher *d)
{
	event_counter_raise(d->nudge_fd);
}

void dispatcher_wait(struct gd_dispatcher *d, struct gd_pool *p)
{
	struct pollfd fds[2] = {
		{.fd = gd_pool_fd(p), .events = POLLIN},
		{.fd = d->nudge_fd, .events = POLLIN},
	};
	if (poll(fds, 2, -1) > 0 && fds[1].revents)
		event_counter_lower(d->nudge_fd);
}

/* ---- Creating and destroying -------------------------------------------- */

int gd_dispatcher_create(const struct gd_options *options, struct gd_dispatcher **ret, struct gd_error *err)
{
	struct gd_options *copy;
	int r = options_copy(options, &copy, err);
	if (r < 0)
		return r;
	struct gd_dispatcher *d = calloc(1, sizeof(*d));
	if (!d) {
		options_free(copy);
		return error_set(err, -ENOMEM, "not enough memory for a dispatcher");
	}
	d->options = copy;
	pthread_mutex_init(&d->lock, NULL);
	d->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	d->nudge_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (d->stop_fd < 0 || d->nudge_fd < 0) {
		r = -errno;
		gd_dispatcher_destroy(d);
		return error_set(err, r, "cannot create a dispatcher: %s", error_words(r));
	}
	*ret = d;
	return 0;
}

void gd_dispatcher_destroy(struct gd_dispatcher *d)
{
	if (!d)
		return;
	if (d->stop_fd >= 0)
		close(d->stop_fd);
	if (d->nudge_fd >= 0)
		close(d->nudge_fd);
	pthread_mutex_destroy(&d->lock);
	options_free(d->options);
	free(d->last_workers);
	free(d);
}

/* ---- Stopping ----------------------------------------------------------- */

/*
 * Passes each stop to the pool exactly once, from the first thread that can. Safe in signal handlers. `passing` counts
 * the callers.
 */
static void pass_stops(struct gd_dispatcher *d)
{
	struct gd_pool *p = atomic_load(&d->stoppable_pool);
	int passed = atomic_load(&d->passed);
	while (p && passed < atomic_load(&d->stops))
		if (atomic_compare_exchange_strong(&d->passed, &passed, passed + 1)) {
			gd_pool_stop(p);
			passed++;
		}
}

void gd_dispatcher_stop(struct gd_dispatcher *d)
{
	atomic_fetch_add(&d->passing, 1);
	atomic_fetch_add(&d->stops, 1);
	event_counter_raise(d->stop_fd);
	pass_stops(d);
	event_counter_raise(d->nudge_fd);
	atomic_fetch_sub(&d->passing, 1);
}

/* When this returns, no stop that was counted before is still being passed on. */
static void await_stops(struct gd_dispatcher *d)
{
	while (atomic_load(&d->passing) > 0)
		sched_yield();
}

/*
 * The run has ended, and its stops with it. A stop that arrives meanwhile is for the next run: the descriptor is
 * readable if and only if there is one.
 */
static void forget_stops(struct gd_dispatcher *d)
{
	atomic_store(&d->stops, 0);
	await_stops(d);
	event_counter_lower(d->stop_fd);
	if (atomic_load(&d->stops) > 0)
		event_counter_raise(d->stop_fd);
}

int gd_dispatcher_stop_fd(const struct gd_dispatcher *d)
{
	return d->stop_fd;
}

static void let_pool_be_stopped(struct gd_dispatcher *d, struct gd_pool *p)
{
	atomic_store(&d->passed, 0);
	atomic_store(&d->stoppable_pool, p);
	atomic_fetch_add(&d->passing, 1);
	pass_stops(d); /* stops that came earlier */
	atomic_fetch_sub(&d->passing, 1);
}

/* Stops are passed to the pool until its workers are gone. When this returns, no stop is using the pool. */
static void workers_are_gone(void *context)
{
	struct gd_dispatcher *d = context;
	struct gd_pool *p = atomic_exchange(&d->stoppable_pool, NULL);
	await_stops(d);
	dispatcher_remember(d, p);
}

static void stop_by_signal(void *context)
{
	gd_dispatcher_stop(context);
}

/* ---- The loop ----------------------------------------------------------- */

/*
 * Polls until the callbacks of all tasks were made and the generator is not called again. If a generator still waits
 * although the run has ended, continues to poll, because further stops must take effect.
 */
static int loop(struct gd_dispatcher *d, struct gd_feed *f, bool is_inline)
{
	struct gd_pool *p = f->pool;
	bool told = false;
	for (;;) {
		bool over = atomic_load(&d->source_over);
		if (is_inline && !over && atomic_load(&d->stops) == 0)
			feed_inline(f);
		else if (is_inline && !over)
			feed_end(f, 0);
		bool sleeps_next = !is_inline || over || gd_pool_room(p) == 0;
		if (sleeps_next)
			pool_look(p);
		int r = gd_pool_poll(p, 0, 0);
		bool ended = r == -ENODEV || r == -ECANCELED;
		if (ended && (over || is_inline))
			return r;
		if (r > 0)
			continue;
		if (over && gd_pool_outstanding(p) == 0)
			return 0;
		if (ended && !told)
			event_counter_raise(d->stop_fd);
		told = ended;
		if (!(is_inline && !over && gd_pool_room(p) > 0))
			dispatcher_wait(d, p);
	}
}

static int explain_no_worker(const struct gd_pool *p, struct gd_error *err)
{
	struct gd_worker_stats worker;
	for (int slot = 0; gd_pool_worker_stats(p, slot, &worker, sizeof(worker)) == 0; slot++)
		if (worker.message[0])
			return error_set(err, -ENODEV,
				"no worker is left: %s; gd_dispatcher_worker_stats() returns why each one was lost",
				worker.message);
	return error_set(err, -ENODEV, "no worker is left");
}

static int explain(struct gd_dispatcher *d, const struct gd_pool *p, int r, struct gd_error *err)
{
	if (r == -ECANCELED)
		return error_set(err, r,
			atomic_load(&d->stops) > 0 ? "stopped by gd_dispatcher_stop()" : "stopped by a callback");
	if (r == -ENODEV)
		return explain_no_worker(p, err);
	if (d->source_error == -ENODATA)
		return error_set(err, -ENODATA,
			"the generator returned %d without a task; it must call gd_feed_emit() and return 1, return 0 at the end, or return a negative errno value",
			d->source_returned);
	if (d->source_error < 0)
		return error_set(err, d->source_error, "the generator failed: %s", error_words(d->source_error));
	return 0;
}

static int run_pool(struct gd_dispatcher *d, struct gd_pool *p, bool is_inline, struct gd_error *err)
{
	struct gd_feed feed = {.dispatcher = d, .pool = p};
	pthread_t thread;
	if (!is_inline) {
		int r = -pthread_create(&thread, NULL, feed_run, &feed);
		if (r < 0)
			return error_set(err, r, "cannot create a thread for the generator: %s", error_words(r));
	}
	int r = loop(d, &feed, is_inline);
	if (!is_inline)
		pthread_join(thread, NULL);
	return explain(d, p, r, err);
}

/* ---- A run -------------------------------------------------------------- */

static int run_once(struct gd_dispatcher *d, const struct gd_callbacks *callbacks, struct gd_error *err)
{
	cleanup_(freep) struct gd_setting *settings = NULL;
	struct gd_options options;
	struct gd_pool *p;
	int r = run_options_fill(d->options, d->run, &options, &settings, err);
	if (r >= 0)
		r = gd_pool_open(&options, callbacks, &p, err);
	if (r < 0) {
		struct gd_stats none = {.size = sizeof(none), .expected = d->run->total_tasks};
		if (callbacks->on_exit)
			callbacks->on_exit(callbacks->context, &none);
		return r;
	}
	pool_serve_run(p, workers_are_gone, d);
	pthread_mutex_lock(&d->lock);
	d->pool = p;
	pthread_mutex_unlock(&d->lock);
	let_pool_be_stopped(d, p);

	r = run_pool(d, p, d->run->inline_generator, err);
	int closed = gd_pool_close(p, NULL, 0, r < 0 ? NULL : err);
	return r < 0 ? r : closed;
}

/* Signals are caught before the first process is forked and until on_exit has returned. */
static int run_with_signals(struct gd_dispatcher *d, const struct gd_callbacks *callbacks, struct gd_error *err)
{
	struct interrupt_watch watch = {.on_signal = stop_by_signal, .context = d};
	if (d->run->leave_signals)
		return run_once(d, callbacks, err);
	interrupts_watch(&watch);
	int r = run_once(d, callbacks, err);
	interrupts_unwatch(&watch);
	int number = atomic_load(&watch.signal);
	if (number == 0)
		return r;
	/* Report the signal in any case: the program must not miss it. */
	return error_set(err, -EINTR, "interrupted by %s%s", signal_name(number), number == SIGINT ? " (Ctrl-C)" : "");
}

int gd_dispatcher_run(
	struct gd_dispatcher *d, const struct gd_run *run, const struct gd_callbacks *callbacks, struct gd_error *err)
{
	struct gd_run given;
	struct gd_callbacks called;
	int r = sized_read(&given, sizeof(given), run, "gd_run", err);
	if (r >= 0)
		r = callbacks_read(&called, callbacks, err);
	if (r < 0)
		return r;
	if (given.reserved != 0)
		return error_set(err, -E2BIG, "gd_run.reserved is %d; it must be 0", given.reserved);
	if (!given.generator)
		return error_set(err, -EINVAL, "the run has no generator");
	if (atomic_exchange(&d->running, true))
		return error_set(err, -EBUSY, "this dispatcher is already running; create another one, or wait");
	d->run = &given;
	d->source_error = 0;
	atomic_store(&d->source_over, false);
	event_counter_lower(d->nudge_fd);
	r = run_with_signals(d, &called, err);
	d->run = NULL;
	forget_stops(d);
	atomic_store(&d->running, false);
	return r;
}
