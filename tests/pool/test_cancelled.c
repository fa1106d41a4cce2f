/* SPDX-License-Identifier: MIT */
/* Cancelled tasks are not failed tasks: which callbacks they get, and how they are counted. */
#include <errno.h>
#include <stdatomic.h>

#include "recorder.h"
#include "support/board.h"
#include "support/wait.h"

#define TASKS 30

/* The first three tasks of each worker are quick; then each waits to be cancelled. */
static int three_then_wait(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	if (atomic_fetch_add(&board->begun, 1) < 6)
		return recorder_echo(w, state, task);
	atomic_fetch_add(&board->notes[0], 1);
	wait_until(gd_worker_cancelled(w, 0));
	return gd_worker_fail(w, -ECANCELED, "given up");
}

static const struct gd_worker_ops worker = {.size = sizeof(struct gd_worker_ops), .process = three_then_wait};

/* Called in the generator: at the last task, waits for both workers and stops twice. */
static void stop_twice_at_the_end(struct recorder *rec)
{
	if (rec->given < TASKS - 1)
		return;
	board_await(&board->notes[0], 2);
	gd_dispatcher_stop(rec->dispatcher);
	gd_dispatcher_stop(rec->dispatcher);
}

static void run_and_stop(struct recorder *rec)
{
	rec->tasks = TASKS;
	rec->run.total_tasks = TASKS;
	rec->on_give = stop_twice_at_the_end;
	assert_int_equal(recorder_run(rec, &worker), -ECANCELED);
	/* A stop takes effect in the next poll: the last task may still be accepted. */
	assert_true(rec->stats.submitted >= TASKS - 1);
	assert_int_equal(rec->stats.completed, 6);
	assert_int_equal(rec->stats.cancelled, rec->stats.submitted - 6);
	assert_int_equal(rec->stats.failed, 0);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 6);
	assert_int_equal(rec->count[CALLBACK_EXIT], 1);
	assert_int_equal(rec->exit_stats.cancelled, rec->stats.cancelled);
}

static void test_on_cancelled_gets_every_cancelled_task(void **state)
{
	struct recorder *rec = *state;
	run_and_stop(rec);
	recorder_assert_complete(rec);
	assert_int_equal(rec->count[CALLBACK_CANCELLED], rec->stats.cancelled);
	assert_int_equal(rec->count[CALLBACK_ERROR], 0);
}

static void test_without_on_cancelled_only_begun_tasks_end_in_on_error(void **state)
{
	struct recorder *rec = *state;
	rec->calls.on_cancelled = NULL;
	run_and_stop(rec);
	assert_int_equal(rec->count[CALLBACK_ERROR], 2);
	for (size_t i = 0; i < 2; i++) {
		const struct run_note *n = recorder_note(rec, CALLBACK_ERROR, i);
		assert_int_equal(n->event.failure, GD_FAILURE_CANCELLED);
		assert_true(n->event.gpu >= 0);
		assert_int_equal(n->event.attempt, 1);
	}
}

static void test_program_may_have_neither_callback(void **state)
{
	struct recorder *rec = *state;
	rec->calls.on_cancelled = NULL;
	rec->calls.on_error = NULL;
	run_and_stop(rec);
	assert_int_equal(rec->count[CALLBACK_ERROR], 0);
}

static int fail_once(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	(void)task;
	return gd_worker_attempt(w, 0) == 1 ? gd_worker_fail(w, -EIO, "first attempt") : 0;
}

static int stop_at_start(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)event;
	if (note->kind == CALLBACK_START)
		gd_dispatcher_stop(rec->dispatcher);
	return 0;
}

/* A task that had begun is never dropped silently, however its only attempt ended. */
static void test_task_whose_retry_was_prevented_by_a_stop_is_called_back(void **state)
{
	struct recorder *rec = *state;
	static const struct gd_worker_ops failing = {.size = sizeof(failing), .process = fail_once};
	rec->calls.on_cancelled = NULL;
	rec->options.gpus = "sim:1";
	rec->options.retries = 1;
	rec->tasks = 1;
	rec->on_note = stop_at_start;
	assert_int_equal(recorder_run(rec, &failing), -ECANCELED);
	assert_int_equal(rec->count[CALLBACK_ERROR], 1);
}

/* The pool itself reports every task. */
static void test_pool_calls_on_error_for_tasks_that_never_began(void **state)
{
	struct recorder *rec = *state;
	rec->calls.on_cancelled = NULL;
	rec->options.gpus = "sim:1";
	struct gd_pool *pool = recorder_open(rec, &worker);
	atomic_store(&board->begun, 6);
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(gd_pool_submit(pool, &i, sizeof(i), NULL, NULL, NULL), 0);
	wait_until(gd_pool_poll(pool, 0, 0) == 0 && atomic_load(&board->notes[0]) == 1);
	gd_pool_stop(pool);
	gd_pool_stop(pool);
	assert_int_equal(gd_pool_wait(pool, WAIT_MS), -ECANCELED);
	assert_int_equal(rec->count[CALLBACK_ERROR], 5);
	assert_int_equal(gd_pool_close(pool, NULL, 0, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		recorder_test(test_on_cancelled_gets_every_cancelled_task),
		recorder_test(test_without_on_cancelled_only_begun_tasks_end_in_on_error),
		recorder_test(test_program_may_have_neither_callback),
		recorder_test(test_task_whose_retry_was_prevented_by_a_stop_is_called_back),
		recorder_test(test_pool_calls_on_error_for_tasks_that_never_began),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
