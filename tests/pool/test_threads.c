/* SPDX-License-Identifier: MIT */
/*
 * The pool and the dispatcher among threads: some submit, one polls, one reads statistics, one stops. The workers are
 * executed, so that the test also works under TSan, whose runtime has its own thread. TEST_WORKER is the program.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu_dispatch.h"

#define SUBMITTERS    3
#define PER_SUBMITTER 2000

struct thread_rig {
	const char *argv[2];
	struct gd_options options;
	struct gd_callbacks calls;
	struct gd_pool *pool;
	struct gd_dispatcher *dispatcher;
	atomic_int submitting; /* threads */
	atomic_bool over;
	uint64_t given;
	size_t started, ended, failed; /* the polling thread's */
};

static int on_success(void *context, const struct gd_event *event)
{
	struct thread_rig *rig = context;
	(void)event;
	rig->ended++;
	return 0;
}

static int on_error(void *context, const struct gd_event *event)
{
	struct thread_rig *rig = context;
	(void)event;
	rig->ended++;
	rig->failed++;
	return 0;
}

static int on_task_start(void *context, const struct gd_event *event)
{
	struct thread_rig *rig = context;
	(void)event;
	rig->started++;
	return 0;
}

static int setup(void **state)
{
	struct thread_rig *rig = calloc(1, sizeof(*rig));
	assert_non_null(rig);
	rig->argv[0] = getenv("TEST_WORKER");
	rig->options = (struct gd_options){
		.size = sizeof(rig->options),
		.worker_argv = rig->argv,
		.gpus = "sim:3",
		.queue_size = 64,
	};
	rig->calls = (struct gd_callbacks){
		.size = sizeof(rig->calls), .context = rig, .on_success = on_success, .on_error = on_error};
	*state = rig;
	return 0;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

static void *submit_many(void *argument)
{
	struct thread_rig *rig = argument;
	intptr_t taken = 0;
	for (int i = 0; i < PER_SUBMITTER; i++) {
		int r;
		if (i % 3 == 0) {
			struct gd_draft *draft;
			void *data;
			r = gd_pool_reserve(rig->pool, 8, NULL, &draft, &data);
			if (r == 0) {
				memcpy(data, "drafted", 8);
				r = gd_draft_commit(draft, 8, NULL, NULL);
			}
		} else {
			r = gd_pool_submit(rig->pool, "task", 4, NULL, NULL, NULL);
		}
		if (r < 0)
			break;
		taken++;
	}
	atomic_fetch_sub(&rig->submitting, 1);
	gd_pool_interrupt(rig->pool);
	return (void *)taken;
}

static void *ask_the_pool(void *argument)
{
	struct thread_rig *rig = argument;
	uint64_t seen = 0;
	while (!atomic_load(&rig->over)) {
		struct gd_stats stats;
		struct gd_worker_stats worker;
		gd_pool_stats(rig->pool, &stats, sizeof(stats));
		seen += stats.completed;
		for (int i = 0; i < 3; i++)
			seen += gd_pool_worker_stats(rig->pool, i, &worker, sizeof(worker)) == 0 ? worker.completed : 0;
		seen += gd_pool_outstanding(rig->pool) + gd_pool_room(rig->pool);
	}
	return (void *)(uintptr_t)seen;
}

static pthread_t start(void *(*function)(void *), void *argument)
{
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, function, argument), 0);
	return thread;
}

static size_t join_submitters(const pthread_t *threads)
{
	size_t taken = 0;
	for (int i = 0; i < SUBMITTERS; i++) {
		void *result;
		assert_int_equal(pthread_join(threads[i], &result), 0);
		taken += (size_t)(intptr_t)result;
	}
	return taken;
}

static void poll_until_done(struct thread_rig *rig)
{
	while (atomic_load(&rig->submitting) > 0 || gd_pool_outstanding(rig->pool) > 0) {
		int r = gd_pool_poll(rig->pool, -1, 0);
		assert_true(r >= 0 || r == -ECANCELED);
	}
}

/* Runs the submitters and one other thread, and polls. Returns how many tasks were accepted. */
static size_t submit_beside(struct thread_rig *rig, void *(*other)(void *rig))
{
	pthread_t threads[SUBMITTERS];
	atomic_store(&rig->submitting, SUBMITTERS);
	assert_int_equal(gd_pool_open(&rig->options, &rig->calls, &rig->pool, NULL), 0);
	for (int i = 0; i < SUBMITTERS; i++)
		threads[i] = start(submit_many, rig);
	pthread_t thread = start(other, rig);
	poll_until_done(rig);
	size_t taken = join_submitters(threads);
	atomic_store(&rig->over, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(gd_pool_close(rig->pool, NULL, 0, NULL), 0);
	return taken;
}

static void test_threads_may_submit_read_statistics_and_poll_at_once(void **state)
{
	struct thread_rig *rig = *state;
	assert_int_equal(submit_beside(rig, ask_the_pool), SUBMITTERS * PER_SUBMITTER);
	assert_int_equal(rig->ended, SUBMITTERS * PER_SUBMITTER);
	assert_int_equal(rig->failed, 0);
}

static void test_threads_may_submit_while_starts_are_reported(void **state)
{
	struct thread_rig *rig = *state;
	rig->calls.on_task_start = on_task_start;
	assert_int_equal(submit_beside(rig, ask_the_pool), SUBMITTERS * PER_SUBMITTER);
	assert_int_equal(rig->started, SUBMITTERS * PER_SUBMITTER);
	assert_int_equal(rig->ended, SUBMITTERS * PER_SUBMITTER);
}

static void *stop_after_some(void *argument)
{
	struct thread_rig *rig = argument;
	struct gd_stats stats;
	do {
		gd_pool_stats(rig->pool, &stats, sizeof(stats));
	} while (stats.completed < PER_SUBMITTER / 2);
	gd_pool_stop(rig->pool);
	gd_pool_stop(rig->pool);
	return NULL;
}

static void test_stop_by_one_thread_ends_submissions_of_others(void **state)
{
	struct thread_rig *rig = *state;
	size_t taken = submit_beside(rig, stop_after_some);
	assert_int_equal(rig->ended, taken);
	assert_true(taken >= PER_SUBMITTER / 2);
}

static int generate(void *context, struct gd_feed *feed)
{
	struct thread_rig *rig = context;
	if (rig->given++ == PER_SUBMITTER)
		return 0;
	int r = gd_feed_emit(feed, "task", 4, NULL, NULL);
	return r < 0 ? r : 1;
}

static void *ask_the_dispatcher(void *argument)
{
	struct thread_rig *rig = argument;
	uint64_t seen = 0;
	while (!atomic_load(&rig->over)) {
		struct gd_stats stats;
		struct gd_worker_stats worker;
		gd_dispatcher_stats(rig->dispatcher, &stats, sizeof(stats));
		seen += stats.completed +
			(gd_dispatcher_worker_stats(rig->dispatcher, 0, &worker, sizeof(worker)) == 0);
	}
	return (void *)(uintptr_t)seen;
}

static void test_another_thread_may_ask_a_run_for_statistics_at_any_time(void **state)
{
	struct thread_rig *rig = *state;
	struct gd_run run = {.size = sizeof(run), .generator = generate, .generator_context = rig};
	assert_int_equal(gd_dispatcher_create(&rig->options, &rig->dispatcher, NULL), 0);
	pthread_t asker = start(ask_the_dispatcher, rig);
	assert_int_equal(gd_dispatcher_run(rig->dispatcher, &run, &rig->calls, NULL), 0);
	atomic_store(&rig->over, true);
	assert_int_equal(pthread_join(asker, NULL), 0);
	gd_dispatcher_destroy(rig->dispatcher);
	assert_int_equal(rig->ended, PER_SUBMITTER);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_threads_may_submit_read_statistics_and_poll_at_once),
		CASE(test_threads_may_submit_while_starts_are_reported),
		CASE(test_stop_by_one_thread_ends_submissions_of_others),
		CASE(test_another_thread_may_ask_a_run_for_statistics_at_any_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
