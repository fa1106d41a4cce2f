/* SPDX-License-Identifier: MIT */
/* gd_dispatcher_run_shown() without a terminal; with one: tests/cli/test_shown.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "gpu_dispatch.h"
#include "shown/worker_row.h"
#include "support/sanitizer.h"

/* Shared by the workers and the test. */
struct shared {
	atomic_bool looked;  /* a task may end */
	atomic_int released; /* tasks up to this number may */
};
static struct shared *shared;

static int work(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	int n = *(const int *)task->data;
	(void)state;
	if (n == 3)
		return gd_worker_fail(w, -EIO, "three");
	if (n == 5)
		while (!gd_worker_cancelled(w, 0))
			usleep(1000);
	return 0;
}

static int bad_setup(struct gd_worker *w, void **ret)
{
	(void)ret;
	return gd_worker_slot(w) == 1 ? gd_worker_fail(w, -EIO, "no model") : 0;
}

static int take(void *context, const struct gd_event *e)
{
	(void)context;
	(void)e;
	return 0;
}

struct numbers {
	int next, end, error;
};

/* The generator waits for it before it ends. */
static atomic_bool *wait_for;

static int next_number(void *context, struct gd_feed *feed)
{
	struct numbers *n = context;
	while (n->next == n->end && wait_for && !atomic_load(wait_for))
		usleep(1000);
	if (n->next == n->end)
		return n->error;
	int r = gd_feed_emit(feed, &n->next, sizeof(n->next), NULL, NULL);
	n->next++;
	return r < 0 ? r : 1;
}

static atomic_bool setup_failed;

static int note_setup(void *context, const struct gd_event *e)
{
	(void)context;
	(void)e;
	atomic_store(&setup_failed, true);
	return 0;
}

/* The outcome of a run. */
struct outcome {
	struct gd_stats stats;
	struct gd_worker_stats workers[2];
};

static int run_with(struct gd_options *o, struct numbers *n, const struct gd_show *show, struct outcome *ret)
{
	struct gd_dispatcher *d;
	struct gd_run run = {
		.size = sizeof(run), .generator = next_number, .generator_context = n, .total_tasks = (uint64_t)n->end};
	const struct gd_callbacks calls = {.size = sizeof(calls), .on_success = take, .on_setup_fail = note_setup};
	o->size = sizeof(*o);
	o->allow_threads = SANITIZER_THREAD;
	if (!o->gpus)
		o->gpus = "sim:2";
	assert_int_equal(gd_dispatcher_create(o, &d, NULL), 0);
	int r = gd_dispatcher_run_shown(d, &run, &calls, show, NULL);
	gd_dispatcher_stats(d, &ret->stats, sizeof(ret->stats));
	for (int i = 0; i < 2; i++)
		if (gd_dispatcher_worker_stats(d, i, &ret->workers[i], sizeof(ret->workers[i])) < 0)
			ret->workers[i] = (struct gd_worker_stats){0};
	gd_dispatcher_destroy(d);
	return r;
}

static void check_outcome(const struct outcome *outcome)
{
	const struct gd_stats *stats = &outcome->stats;
	assert_int_equal(stats->submitted, 10);
	assert_int_equal(stats->expected, 10);
	assert_int_equal(stats->completed, 8);
	assert_int_equal(stats->failed, 1);
	assert_int_equal(stats->timeouts, 1);
	assert_int_equal(stats->setup_failures, 0);
	assert_true(stats->start_ns > 0 && stats->end_ns > stats->start_ns);
	assert_int_equal(stats->workers, 2);
	uint64_t completed = 0, failed = 0, timeouts = 0;
	for (int i = 0; i < 2; i++) {
		const struct gd_worker_stats *w = &outcome->workers[i];
		assert_int_equal(w->gpu, i);
		assert_int_equal(w->state, GD_WORKER_STATE_FINISHED);
		assert_false(w->has_task);
		completed += w->completed;
		failed += w->failed;
		timeouts += w->timeouts;
	}
	assert_int_equal(completed, 8);
	assert_int_equal(failed, 1);
	assert_int_equal(timeouts, 1);
}

/* Runs and captures the output on this descriptor. */
static void run_and_read(enum gd_show_mode mode, char *printed, size_t room)
{
	int fds[2];
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	struct gd_worker_ops worker = {.size = sizeof(struct gd_worker_ops), .process = work};
	struct gd_options o = {.worker = &worker, .task_timeout_ms = 2000};
	struct numbers n = {.end = 10};
	struct gd_show show = {.size = sizeof(show), .fd = fds[1], .mode = mode, .title = "ten"};
	struct outcome outcome;
	assert_int_equal(run_with(&o, &n, &show, &outcome), 0);
	check_outcome(&outcome);
	close(fds[1]);
	size_t length = 0;
	ssize_t got;
	while ((got = read(fds[0], printed + length, room - 1 - length)) > 0)
		length += (size_t)got;
	printed[length] = 0;
	close(fds[0]);
}

static void test_statistics_are_returned_in_every_mode(void **state)
{
	(void)state;
	char printed[4096];
	run_and_read(GD_SHOW_MODE_OFF, printed, sizeof(printed));
	assert_string_equal(printed, "");
	run_and_read(GD_SHOW_MODE_AUTO, printed, sizeof(printed)); /* a pipe: plain */
	assert_memory_equal(printed, "ten: 100%, 10/10 done, 2 failed, 1 by timeout, ", 47);
	assert_ptr_equal(strchr(printed, '\n') + 1, printed + strlen(printed));
	run_and_read(GD_SHOW_MODE_PLAIN, printed, sizeof(printed));
	assert_memory_equal(printed, "ten: 100%, 10/10 done", 21);
}

static void test_worker_whose_setup_failed_is_lost(void **state)
{
	(void)state;
	struct gd_worker_ops worker = {.size = sizeof(struct gd_worker_ops), .setup = bad_setup, .process = work};
	struct gd_options o = {.worker = &worker};
	atomic_store(&setup_failed, false);
	wait_for = &setup_failed;
	struct numbers n = {.end = 2};
	struct gd_show show = {.size = sizeof(show), .mode = GD_SHOW_MODE_OFF};
	struct outcome outcome;
	assert_int_equal(run_with(&o, &n, &show, &outcome), 0);
	assert_int_equal(outcome.stats.setup_failures, 1);
	assert_int_equal(outcome.workers[0].state, GD_WORKER_STATE_FINISHED);
	assert_int_equal(outcome.workers[1].state, GD_WORKER_STATE_LOST);
	wait_for = NULL;
}

static void test_shown_run_returns_the_errors_of_a_run(void **state)
{
	(void)state;
	struct gd_worker_ops worker = {.size = sizeof(struct gd_worker_ops), .process = work};
	struct gd_options o = {.worker = &worker};
	struct numbers n = {.end = 2, .error = -EIO};
	struct gd_show show = {.size = sizeof(show), .mode = GD_SHOW_MODE_OFF};
	struct outcome outcome;
	assert_int_equal(run_with(&o, &n, &show, &outcome), -EIO);
	assert_int_equal(outcome.stats.completed, 2);
	n = (struct numbers){.end = 2};
	show.size = 1;
	assert_int_equal(run_with(&o, &n, &show, &outcome), -EINVAL);
	o.gpus = "sim:0";
	show.size = sizeof(show);
	struct gd_dispatcher *d;
	assert_int_equal(gd_dispatcher_create(&o, &d, NULL), 0);
	assert_int_equal(gd_dispatcher_run_shown(d, NULL, NULL, &show, NULL), -EINVAL);
	gd_dispatcher_destroy(d);
}

/* ---- Cancelled tasks ---------------------------------------------------------------------------------- */

/* Nothing ends before all 30 tasks were emitted. Nine tasks end; the tenth waits until the run is stopped. */
static int nine_then_wait(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)w;
	(void)state;
	int n = *(const int *)task->data;
	while (!atomic_load(&shared->released) || (n == 9 && !atomic_load(&shared->looked)))
		usleep(1000);
	return 0;
}

struct stopped {
	struct gd_dispatcher *dispatcher;
	struct numbers numbers;
	int done;
};

static int stop_after_nine(void *context, const struct gd_event *e)
{
	struct stopped *s = context;
	(void)e;
	if (++s->done == 9)
		gd_dispatcher_stop(s->dispatcher);
	return 0;
}

static int release_tenth(void *context, const struct gd_event *e)
{
	(void)context;
	(void)e;
	atomic_store(&shared->looked, true);
	return 0;
}

static int next_of_stopped(void *context, struct gd_feed *feed)
{
	struct numbers *n = &((struct stopped *)context)->numbers;
	if (n->next == n->end)
		atomic_store(&shared->released, 1);
	return next_number(n, feed);
}

static void test_stopped_run_shows_cancelled_tasks_apart(void **state)
{
	(void)state;
	int fds[2];
	char printed[4096] = "";
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	struct stopped s = {.numbers = {.end = 30}};
	struct gd_worker_ops worker = {.size = sizeof(struct gd_worker_ops), .process = nine_then_wait};
	struct gd_options o = {
		.size = sizeof(o), .worker = &worker, .gpus = "sim:1", .allow_threads = SANITIZER_THREAD};
	struct gd_run run = {
		.size = sizeof(run), .generator = next_of_stopped, .generator_context = &s, .total_tasks = 30};
	struct gd_callbacks calls = {
		.size = sizeof(calls), .context = &s, .on_success = stop_after_nine, .on_cancelled = release_tenth};
	struct gd_show show = {.size = sizeof(show), .fd = fds[1], .mode = GD_SHOW_MODE_PLAIN, .title = "thirty"};
	assert_int_equal(gd_dispatcher_create(&o, &s.dispatcher, NULL), 0);
	assert_int_equal(gd_dispatcher_run_shown(s.dispatcher, &run, &calls, &show, NULL), -ECANCELED);
	gd_dispatcher_destroy(s.dispatcher);
	close(fds[1]);
	assert_true(read(fds[0], printed, sizeof(printed) - 1) > 0);
	close(fds[0]);
	munmap(shared, sizeof(*shared));
	int done = 0, cancelled = 0;
	assert_int_equal(sscanf(printed, "thirty: %*d%%, %d/30 done, 0 failed, %d cancelled, ", &done, &cancelled), 2);
	assert_true(done == 9 || done == 10); /* the tenth may not have begun */
	assert_int_equal(cancelled, 30 - done);
	assert_null(strstr(printed, "100%"));
}

static void test_lost_worker_shows_the_words_of_its_setup(void **state)
{
	(void)state;
	struct gd_worker_stats w = {.size = sizeof(w), .gpu = 1, .slot = 1, .state = GD_WORKER_STATE_LOST};
	assert_string_equal(worker_row(&w).error, "stopped: its setup failed, or it crashed too often");
	strcpy(w.message, "no model");
	assert_string_equal(worker_row(&w).error, "no model");
	w.state = GD_WORKER_STATE_IDLE;
	assert_null(worker_row(&w).error);
}

/* ---- The current task of a worker --------------------------------------------------------------------- */

static int wait_to_be_seen(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)w;
	(void)state;
	(void)task;
	while (!atomic_load(&shared->looked))
		usleep(1000);
	return 0;
}

static void test_the_task_of_a_worker_can_be_read(void **state)
{
	(void)state;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	struct gd_worker_ops worker = {.size = sizeof(struct gd_worker_ops), .process = wait_to_be_seen};
	struct gd_options o = {
		.size = sizeof(o), .worker = &worker, .gpus = "sim:1", .allow_threads = SANITIZER_THREAD};
	struct gd_callbacks calls = {.size = sizeof(calls), .on_success = take};
	struct gd_pool *p;
	char bytes[8] = "";
	uint64_t id = 99;
	assert_int_equal(gd_pool_open(&o, &calls, &p, NULL), 0);
	assert_int_equal(gd_pool_worker_task(p, 1, bytes, 8, &id), -ENOENT);
	assert_int_equal(gd_pool_worker_task(p, 0, bytes, 8, &id), -ENODATA);
	assert_int_equal(gd_pool_submit(p, "a long name", 11, NULL, NULL, NULL), 0);
	/* Large enough for a separate memory mapping. */
	size_t large = (size_t)3 << 20;
	char *much = calloc(1, large);
	memcpy(much, "large", 5);
	assert_int_equal(gd_pool_submit(p, much, large, NULL, NULL, NULL), 0);
	free(much);
	int64_t size;
	while ((size = gd_pool_worker_task(p, 0, bytes, 6, &id)) == -ENODATA)
		assert_true(gd_pool_poll(p, 10, 0) >= 0);
	assert_int_equal(size, 11);
	assert_int_equal(id, 0);
	assert_string_equal(bytes, "a long");
	atomic_store(&shared->looked, true);
	while (gd_pool_outstanding(p) == 2)
		assert_true(gd_pool_poll(p, 10, 0) >= 0);
	size = gd_pool_worker_task(p, 0, bytes, 6, &id);
	assert_true(size == (int64_t)large || size == -ENODATA); /* already done */
	while (gd_pool_outstanding(p) > 0)
		assert_true(gd_pool_poll(p, 10, 0) >= 0);
	assert_int_equal(gd_pool_worker_task(p, 0, bytes, 8, &id), -ENODATA);
	assert_int_equal(gd_pool_close(p, NULL, 0, NULL), 0);
	munmap(shared, sizeof(*shared));
}

static int wait_for_number(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)w;
	(void)state;
	while (atomic_load(&shared->released) < *(const int *)task->data)
		usleep(1000);
	return 0;
}

static int note_end(void *context, const struct gd_event *e)
{
	*(uint64_t *)context = e->ended_ns;
	return 0;
}

/* The task may have been queued hours earlier. */
static void test_a_task_is_timed_from_its_beginning(void **state)
{
	(void)state;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	uint64_t first_end = 0;
	struct gd_worker_ops worker = {.size = sizeof(struct gd_worker_ops), .process = wait_for_number};
	struct gd_options o = {
		.size = sizeof(o), .worker = &worker, .gpus = "sim:1", .allow_threads = SANITIZER_THREAD};
	struct gd_callbacks calls = {.size = sizeof(calls), .context = &first_end, .on_success = note_end};
	struct gd_pool *p;
	struct gd_worker_stats w = {0};
	assert_int_equal(gd_pool_open(&o, &calls, &p, NULL), 0);
	for (int n = 1; n <= 2; n++)
		assert_int_equal(gd_pool_submit(p, &n, sizeof(n), NULL, NULL, NULL), 0);
	atomic_store(&shared->released, 1);
	while (gd_pool_outstanding(p) == 2)
		assert_true(gd_pool_poll(p, 10, 0) >= 0);
	/* As soon as the worker has reported it. */
	for (int i = 0; i < 6000 && (!w.has_task || w.since_ns < first_end); i++) {
		assert_true(gd_pool_poll(p, 10, 0) >= 0);
		assert_int_equal(gd_pool_worker_stats(p, 0, &w, sizeof(w)), 0);
	}
	assert_int_equal(w.task_id, 1);
	assert_true(w.since_ns >= first_end);
	atomic_store(&shared->released, 2);
	while (gd_pool_outstanding(p) > 0)
		assert_true(gd_pool_poll(p, 10, 0) >= 0);
	assert_int_equal(gd_pool_close(p, NULL, 0, NULL), 0);
	munmap(shared, sizeof(*shared));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_statistics_are_returned_in_every_mode),
		cmocka_unit_test(test_worker_whose_setup_failed_is_lost),
		cmocka_unit_test(test_shown_run_returns_the_errors_of_a_run),
		cmocka_unit_test(test_stopped_run_shows_cancelled_tasks_apart),
		cmocka_unit_test(test_lost_worker_shows_the_words_of_its_setup),
		cmocka_unit_test(test_the_task_of_a_worker_can_be_read),
		cmocka_unit_test(test_a_task_is_timed_from_its_beginning),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
