/* SPDX-License-Identifier: MIT */
/*
 * The generator-driven loop, written with the public functions of the pool
 * alone. The generator runs in a feeder thread, so that one that waits holds
 * back no callback.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/sized.h"
#include "pool/options.h"

SIZED_NO_TAIL(gd_run, has_base_seed);

#define INLINE_LARGE ((size_t)64 << 10)
#define INLINE_BURST 512 /* tasks pulled on the caller's thread between two looks at the answers */

struct gd_feed {
	struct gd_dispatcher *dispatcher;
	struct gd_pool *pool;
	int error; /* why the pool did not take the task; the run knows that already */
	bool emitted;
	struct gd_draft *draft;
	size_t size;
	void *tag;
};

struct gd_dispatcher {
	struct gd_options *options;
	int stop_fd;  /* readable from the first stop on */
	int nudge_fd; /* something changed: the loop looks round */
	atomic_int stops;
	atomic_bool running;
	int passed;               /* of them, on to the pool */
	const struct gd_run *run; /* of the run that goes on */
	atomic_bool source_over;
	int source_error;

	pthread_mutex_t lock; /* for those who ask for statistics */
	struct gd_pool *pool; /* NULL: no run goes on */
	struct gd_stats last;
	struct gd_worker_stats *last_workers;
	size_t num_last_workers;
};

static void raise_fd(int fd)
{
	int saved = errno;
	uint64_t one = 1;
	if (write(fd, &one, sizeof(one)) < 0)
		errno = 0; /* the counter is full: it is readable */
	errno = saved;
}

static void lower_fd(int fd)
{
	uint64_t count;
	while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
}

/* ---- Making and ending -------------------------------------------------- */

int gd_dispatcher_create(const struct gd_options *options, struct gd_dispatcher **ret, struct gd_error *err)
{
	struct gd_options *copy;
	int r = options_copy(options, &copy, err);
	if (r < 0)
		return r;
	struct gd_dispatcher *d = calloc(1, sizeof(*d));
	if (!d) {
		options_free(copy);
		return error_set(err, -ENOMEM, "no memory for a dispatcher");
	}
	d->options = copy;
	pthread_mutex_init(&d->lock, NULL);
	d->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	d->nudge_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (d->stop_fd < 0 || d->nudge_fd < 0) {
		r = -errno;
		gd_dispatcher_destroy(d);
		return error_set(err, r, "cannot make a dispatcher: %s", error_words(r));
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

void gd_dispatcher_stop(struct gd_dispatcher *d)
{
	atomic_fetch_add(&d->stops, 1);
	raise_fd(d->stop_fd);
	raise_fd(d->nudge_fd);
}

int gd_dispatcher_stop_fd(const struct gd_dispatcher *d)
{
	return d->stop_fd;
}

/* ---- Waiting and stopping ----------------------------------------------- */

static void wait_for_something(struct gd_dispatcher *d, struct gd_pool *p)
{
	struct pollfd fds[2] = {
		{.fd = gd_pool_fd(p), .events = POLLIN},
		{.fd = d->nudge_fd, .events = POLLIN},
	};
	if (poll(fds, 2, -1) > 0 && fds[1].revents)
		lower_fd(d->nudge_fd);
}

/* Passes on what was asked of the dispatcher; a pool counts its own. */
static void pass_stops(struct gd_dispatcher *d, struct gd_pool *p)
{
	for (int asked = atomic_load(&d->stops); d->passed < asked && d->passed < 2; d->passed++)
		gd_pool_stop(p);
}

/* ---- The source --------------------------------------------------------- */

/* On the thread that polls nobody else does it; the generator then finds callbacks made while it emits. */
static void make_room(struct gd_feed *f)
{
	pass_stops(f->dispatcher, f->pool);
	if (gd_pool_poll(f->pool, 0, 0) == 0)
		wait_for_something(f->dispatcher, f->pool);
}

int gd_feed_emit(struct gd_feed *f, const void *data, size_t size, void *tag, const struct gd_task_options *options)
{
	if (f->emitted)
		return -EALREADY;
	if (f->error < 0)
		return f->error;
	int r;
	while ((r = gd_pool_submit(f->pool, data, size, tag, options, NULL)) == -EAGAIN)
		make_room(f);
	f->size = size;
	if (r < 0)
		f->error = r;
	else
		f->emitted = true;
	return r < 0 ? r : 1;
}

void *gd_feed_reserve(struct gd_feed *f, size_t size, void *tag, const struct gd_task_options *options)
{
	if (f->emitted || f->error < 0)
		return NULL;
	void *data;
	while ((f->error = gd_pool_reserve(f->pool, size, options, &f->draft, &data)) == -EAGAIN)
		make_room(f);
	if (f->error < 0)
		return NULL;
	f->emitted = true;
	f->size = size;
	f->tag = tag;
	return data;
}

/* One call of the generator. 1: there may be more. */
static int pull(struct gd_feed *f)
{
	const struct gd_run *run = f->dispatcher->run;
	f->emitted = false;
	f->draft = NULL;
	int r = run->generator(run->generator_context, f);
	if (f->draft && r > 0)
		f->error = gd_draft_commit(f->draft, f->size, f->tag, NULL);
	else if (f->draft)
		gd_draft_abandon(f->draft);
	if (f->error == -ESHUTDOWN || f->error == -ENODEV)
		return 0; /* the run is ending; that is no fault of the generator */
	if (f->error < 0)
		return f->error;
	if (r > 0 && !f->emitted)
		return -ENODATA;
	return r > 0 ? 1 : r;
}

static void source_is_over(struct gd_dispatcher *d, int r)
{
	d->source_error = r;
	atomic_store(&d->source_over, true);
	raise_fd(d->nudge_fd);
}

static void *feeder(void *argument)
{
	struct gd_feed *f = argument;
	int r;
	do {
		r = atomic_load(&f->dispatcher->stops) > 0 ? 0 : pull(f);
	} while (r > 0);
	source_is_over(f->dispatcher, r);
	return NULL;
}

/* On the caller's thread: as many as there is room for, but not so many that answers wait. */
static void feed_inline(struct gd_feed *f)
{
	struct gd_dispatcher *d = f->dispatcher;
	size_t room = gd_pool_room(f->pool);
	int r = 1;
	for (size_t i = 0; i < room && i < INLINE_BURST && r > 0; i++) {
		r = pull(f);
		if (f->size >= INLINE_LARGE)
			break; /* the room is not known in numbers any more */
	}
	if (r <= 0)
		source_is_over(d, r);
}

/* ---- The loop ----------------------------------------------------------- */

/* Until every task has had its callback and no more will come. */
static int loop(struct gd_dispatcher *d, struct gd_feed *f, bool is_inline)
{
	struct gd_pool *p = f->pool;
	for (;;) {
		pass_stops(d, p);
		bool over = atomic_load(&d->source_over);
		if (is_inline && !over && d->passed == 0)
			feed_inline(f);
		else if (is_inline && !over)
			source_is_over(d, 0);
		int r = gd_pool_poll(p, 0, 0);
		if (r == -ENODEV || r == -ECANCELED)
			return r;
		if (r > 0)
			continue;
		if (over && gd_pool_outstanding(p) == 0)
			return 0;
		if (!(is_inline && !over && gd_pool_room(p) > 0))
			wait_for_something(d, p);
	}
}

static int explain(struct gd_dispatcher *d, int r, struct gd_error *err)
{
	if (r == -ECANCELED)
		return error_set(err, r,
			atomic_load(&d->stops) > 0 ? "stopped by gd_dispatcher_stop()" : "stopped by a callback");
	if (r == -ENODEV)
		return error_set(err, r, "no worker is left: every setup failed, or its replacement's did");
	if (d->source_error == -ENODATA)
		return error_set(err, -ENODATA, "the generator returned 1 without a task: gd_feed_emit() comes first");
	if (d->source_error < 0)
		return error_set(err, d->source_error, "the generator failed: %s", error_words(d->source_error));
	return 0;
}

/* ---- Statistics --------------------------------------------------------- */

/* The pool is about to be closed: from here on its figures are the dispatcher's. */
static void remember(struct gd_dispatcher *d, struct gd_pool *p)
{
	struct gd_stats stats;
	gd_pool_stats(p, &stats, sizeof(stats));
	struct gd_worker_stats *workers = calloc(stats.workers, sizeof(*workers));
	for (size_t i = 0; workers && i < stats.workers; i++) {
		gd_pool_worker_stats(p, (int)i, &workers[i], sizeof(workers[i]));
		workers[i].pid = 0;
		if (workers[i].state != GD_WORKER_STATE_LOST)
			workers[i].state = GD_WORKER_STATE_FINISHED;
	}
	pthread_mutex_lock(&d->lock);
	free(d->last_workers);
	d->last_workers = workers;
	d->num_last_workers = workers ? stats.workers : 0;
	d->last = stats;
	d->pool = NULL;
	pthread_mutex_unlock(&d->lock);
}

void gd_dispatcher_stats(const struct gd_dispatcher *dispatcher, struct gd_stats *ret, size_t size)
{
	struct gd_dispatcher *d = (struct gd_dispatcher *)dispatcher; /* only the lock changes */
	pthread_mutex_lock(&d->lock);
	if (d->pool)
		gd_pool_stats(d->pool, ret, size);
	else
		sized_write(ret, size, &d->last, sizeof(d->last));
	pthread_mutex_unlock(&d->lock);
}

int gd_dispatcher_worker_stats(
	const struct gd_dispatcher *dispatcher, int slot, struct gd_worker_stats *ret, size_t size)
{
	struct gd_dispatcher *d = (struct gd_dispatcher *)dispatcher;
	int r = -ENOENT;
	pthread_mutex_lock(&d->lock);
	if (d->pool) {
		r = gd_pool_worker_stats(d->pool, slot, ret, size);
	} else if (slot >= 0 && (size_t)slot < d->num_last_workers) {
		sized_write(ret, size, &d->last_workers[slot], sizeof(d->last_workers[slot]));
		r = 0;
	}
	pthread_mutex_unlock(&d->lock);
	return r;
}

int64_t gd_dispatcher_worker_task(
	const struct gd_dispatcher *dispatcher, int slot, void *data, size_t room, uint64_t *ret_id)
{
	struct gd_dispatcher *d = (struct gd_dispatcher *)dispatcher;
	pthread_mutex_lock(&d->lock);
	bool known = slot >= 0 && (size_t)slot < d->num_last_workers;
	int64_t size = d->pool ? gd_pool_worker_task(d->pool, slot, data, room, ret_id) : known ? -ENODATA : -ENOENT;
	pthread_mutex_unlock(&d->lock);
	return size;
}

/* ---- A run -------------------------------------------------------------- */

static int run_pool(struct gd_dispatcher *d, struct gd_pool *p, bool is_inline, struct gd_error *err)
{
	struct gd_feed feed = {.dispatcher = d, .pool = p};
	pthread_t thread;
	if (!is_inline) {
		int r = -pthread_create(&thread, NULL, feeder, &feed);
		if (r < 0)
			return error_set(err, r, "cannot make a thread for the generator: %s", error_words(r));
	}
	int r = loop(d, &feed, is_inline);
	if (!is_inline) {
		raise_fd(d->stop_fd); /* for a generator that waits for something else */
		pthread_join(thread, NULL);
	}
	return explain(d, r, err);
}

static bool has_key(const struct gd_setting *settings, size_t count, const char *key)
{
	for (size_t i = 0; i < count; i++)
		if (settings[i].key && strcmp(settings[i].key, key) == 0)
			return true;
	return false;
}

/* The options' settings and the run's; the run's replace those of the same key. */
static int merge_settings(struct gd_options *o, const struct gd_run *run, struct gd_setting **ret)
{
	struct gd_setting *all = calloc(o->num_settings + run->num_settings + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	size_t count = 0;
	for (size_t i = 0; i < o->num_settings; i++)
		if (!has_key(run->settings, run->num_settings, o->settings[i].key))
			all[count++] = o->settings[i];
	for (size_t i = 0; i < run->num_settings; i++)
		all[count++] = run->settings[i];
	o->settings = all;
	o->num_settings = count;
	*ret = all;
	return 0;
}

/* The dispatcher's options as this run has them. */
static int run_options(struct gd_dispatcher *d, struct gd_options *o, struct gd_setting **ret, struct gd_error *err)
{
	const struct gd_run *run = d->run;
	*o = *d->options;
	o->total_tasks = run->total_tasks;
	if (run->task_timeout_ms)
		o->task_timeout_ms = run->task_timeout_ms;
	if (run->base_seed != 0 || run->has_base_seed)
		o->base_seed = run->base_seed;
	if (run->num_settings == 0)
		return 0;
	if (!run->settings)
		return error_set(
			err, -EINVAL, "num_settings of the run is %zu, but settings is NULL", run->num_settings);
	return merge_settings(o, run, ret) < 0 ? error_set(err, -ENOMEM, "no memory for the run's settings") : 0;
}

static int run_once(struct gd_dispatcher *d, const struct gd_callbacks *callbacks, struct gd_error *err)
{
	cleanup_(freep) struct gd_setting *settings = NULL;
	struct gd_options options;
	struct gd_pool *p;
	int r = run_options(d, &options, &settings, err);
	if (r >= 0)
		r = gd_pool_open(&options, callbacks, &p, err);
	if (r < 0) {
		struct gd_stats none = {.size = sizeof(none), .expected = d->run->total_tasks};
		if (callbacks->on_exit)
			callbacks->on_exit(callbacks->context, &none);
		return r;
	}
	pthread_mutex_lock(&d->lock);
	d->pool = p;
	pthread_mutex_unlock(&d->lock);

	r = run_pool(d, p, d->run->inline_generator, err);
	remember(d, p);
	struct gd_stats stats;
	int closed = gd_pool_close(p, &stats, sizeof(stats), r < 0 ? NULL : err);
	pthread_mutex_lock(&d->lock);
	d->last = stats;
	pthread_mutex_unlock(&d->lock);
	return r < 0 ? r : closed;
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
	if (!given.generator)
		return error_set(err, -EINVAL, "the run has no generator");
	if (atomic_exchange(&d->running, true))
		return error_set(err, -EBUSY, "this dispatcher is running already: make a second one, or wait");
	d->run = &given;
	d->source_error = 0;
	d->passed = 0;
	atomic_store(&d->source_over, false);
	lower_fd(d->nudge_fd);
	r = run_once(d, &called, err);
	d->run = NULL;
	atomic_store(&d->stops, 0);
	lower_fd(d->stop_fd);
	atomic_store(&d->running, false);
	return r;
}
