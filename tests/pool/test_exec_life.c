/* SPDX-License-Identifier: MIT */
/* The life of executed workers: their last hook, recycling, and a host with busy threads. TEST_WORKER is the program.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recorder.h"
#include "support/board.h"
#include "support/process.h"
#include "support/wait.h"

static const struct gd_setting last_words = {"last words", "farewell"};

/* How many times the workers of both slots have printed their last words. */
static size_t count_farewells(void)
{
	size_t count = 0;
	for (int slot = 0; slot < 2; slot++) {
		char path[256], text[4096];
		snprintf(path, sizeof(path), "%s/worker-%d.log", recorder_dir(), slot);
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		assert_true(fd >= 0);
		ssize_t n = read(fd, text, sizeof(text) - 1);
		close(fd);
		assert_true(n >= 0);
		text[n] = '\0';
		count += check_occurrences(text, "farewell\n");
	}
	return count;
}

static int run(struct recorder *rec, const char *mode)
{
	const char *const argv[] = {getenv("TEST_WORKER"), mode, NULL};
	rec->options.worker_argv = argv;
	rec->options.settings = &last_words;
	rec->options.num_settings = 1;
	rec->options.output = GD_OUTPUT_FILES;
	rec->options.output_dir = recorder_dir();
	return recorder_run(rec, NULL);
}

static void test_recycled_executed_workers_run_their_last_hook(void **state)
{
	struct recorder *rec = *state;
	rec->options.max_tasks_per_worker = 3;
	rec->options.grace_ms = WAIT_MS;
	assert_int_equal(run(rec, ""), 0);
	recorder_assert_complete(rec);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 10);
	assert_true(rec->stats.restarts >= 2);
	assert_int_equal(count_farewells(), 2 + rec->stats.restarts);
}

static void test_executed_worker_runs_its_last_hook_after_a_failed_setup(void **state)
{
	struct recorder *rec = *state;
	assert_int_equal(run(rec, "no-setup"), -ENODEV);
	assert_int_equal(rec->count[CALLBACK_SETUP_FAIL], 2);
	assert_int_equal(count_farewells(), 2);
}

/* ---- A host with busy threads ------------------------------------------- */

#define THREADS 6

/* Holds locks of the allocator and of stdio as often as it can. */
static void *be_busy(void *context)
{
	FILE *out = context;
	for (unsigned i = 0; !atomic_load(&board->go); i++) {
		char *memory = malloc(i % 4000 + 1);
		fprintf(out, "%p %u\n", (void *)memory, i);
		setvbuf(stdin, NULL, _IONBF, 0);
		free(memory);
	}
	return NULL;
}

static void use_pool(struct recorder *rec)
{
	struct gd_pool *p = recorder_open(rec, NULL);
	assert_int_equal(gd_pool_wait_ready(p, WAIT_MS), 2);
	struct gd_worker_stats worker;
	assert_int_equal(gd_pool_worker_stats(p, 0, &worker, sizeof(worker)), 0);
	process_kill((pid_t)worker.pid);
	for (int i = 0; i < 20; i++)
		assert_int_equal(gd_pool_submit(p, "x", 1, NULL, NULL, NULL), 0);
	assert_int_equal(gd_pool_wait(p, WAIT_MS), 0);
	uint64_t deadline_ns = wait_deadline_ns();
	do {
		wait_check(deadline_ns, "the replacement");
		gd_pool_poll(p, 20, GD_POLL_IDLE);
		assert_int_equal(gd_pool_worker_stats(p, 0, &worker, sizeof(worker)), 0);
	} while (worker.restarts == 0);
	assert_int_equal(gd_pool_wait_ready(p, WAIT_MS), 2);
	assert_int_equal(gd_pool_close(p, NULL, 0, NULL), 0);
}

static void test_pool_of_executed_workers_works_beside_busy_threads(void **state)
{
	struct recorder *rec = *state;
	const char *const argv[] = {getenv("TEST_WORKER"), NULL};
	FILE *out = fopen("/dev/null", "w");
	pthread_t threads[THREADS];
	assert_non_null(out);
	rec->options.worker_argv = argv;
	rec->options.retries = 1;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, be_busy, out), 0);
	for (int i = 0; i < 10; i++)
		use_pool(rec);
	atomic_store(&board->go, 1);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	fclose(out);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 200);
	assert_int_equal(rec->count[CALLBACK_SETUP_FAIL], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		recorder_test(test_recycled_executed_workers_run_their_last_hook),
		recorder_test(test_executed_worker_runs_its_last_hook_after_a_failed_setup),
		recorder_test(test_pool_of_executed_workers_works_beside_busy_threads),
	};
	return cmocka_run_group_tests_name("pool_exec_life", tests, NULL, NULL);
}
