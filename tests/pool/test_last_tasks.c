/* SPDX-License-Identifier: MIT */
/* Workers that die when no more tasks come: they are replaced only if a task needs that. */
#include <stdlib.h>

#include "pool_rig.h"
#include "recorder.h"
#include "support/board.h"
#include "support/wait.h"

enum { JOB_ANSWER, JOB_CRASH, JOB_WAIT };

static int answer_crash_or_wait(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct rig_job job = pool_rig_job(task);
	if (job.what == JOB_CRASH)
		abort();
	if (job.what == JOB_WAIT && !board_pass_gate(0))
		return -1;
	return pool_rig_reply(w, &job);
}

static int crash_at_the_last(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)w;
	(void)state;
	if (recorder_number(task) == 9)
		abort();
	return recorder_echo(w, state, task);
}

/* With a feeder thread the worker might die before the generator has reported its end. */
static void test_worker_that_dies_with_the_last_task_of_a_run_is_not_replaced(void **state)
{
	const struct gd_worker_ops dying = {.size = sizeof(dying), .process = crash_at_the_last};
	struct recorder *rec = *state;
	rec->options.gpus = "sim:1";
	rec->run.inline_generator = 1;
	assert_int_equal(recorder_run(rec, &dying), 0);
	recorder_assert_complete(rec);
	assert_int_equal(rec->exit_stats.failed, 1);
	assert_int_equal(rec->exit_stats.restarts, 0);
	assert_int_equal(rec->exit_stats.setup_failures, 0);
}

static const struct gd_worker_ops ops = {.size = sizeof(ops), .process = answer_crash_or_wait};

static bool one_has_failed(struct pool_rig *rig)
{
	return rig->errors == 1;
}

static bool one_has_succeeded(struct pool_rig *rig)
{
	return rig->successes == 1;
}

/* Two workers: one dies with its task, the other runs the last one. */
static void open_with_one_dead(struct pool_rig *rig)
{
	pool_rig_open(rig, &ops);
	assert_int_equal(gd_pool_wait_ready(rig->pool, WAIT_MS), 2);
	pool_rig_submit(rig, JOB_WAIT, 0);
	pool_rig_submit(rig, JOB_CRASH, 0);
	gd_pool_expect_no_more(rig->pool);
	pool_rig_await(rig, one_has_failed);
}

static void test_worker_is_not_replaced_while_another_is_at_the_last_task(void **state)
{
	struct pool_rig *rig = *state;
	open_with_one_dead(rig);
	board_open_gate(0);
	pool_rig_drain(rig);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.restarts, 0);
	assert_int_equal(rig->setup_failures, 0);
}

/* Breaks the promise of no more tasks: the simplest way to a task that waits for a worker. */
static void test_worker_is_replaced_as_soon_as_a_task_waits(void **state)
{
	struct pool_rig *rig = *state;
	open_with_one_dead(rig);
	pool_rig_submit(rig, JOB_ANSWER, 0);
	pool_rig_await(rig, one_has_succeeded);
	board_open_gate(0);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 2);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.restarts, 1);
}

static void test_task_that_is_tried_again_has_a_worker(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:1";
	rig->options.retries = 2;
	pool_rig_open(rig, &ops);
	pool_rig_submit(rig, JOB_CRASH, 0);
	gd_pool_expect_no_more(rig->pool);
	pool_rig_drain(rig);
	assert_int_equal(rig->errors, 1);
	assert_int_equal(rig->failure.event.attempt, 3);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.restarts, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		recorder_test(test_worker_that_dies_with_the_last_task_of_a_run_is_not_replaced),
		pool_rig_test(test_worker_is_not_replaced_while_another_is_at_the_last_task),
		pool_rig_test(test_worker_is_replaced_as_soon_as_a_task_waits),
		pool_rig_test(test_task_that_is_tried_again_has_a_worker),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
