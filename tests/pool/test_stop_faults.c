/* SPDX-License-Identifier: MIT */
/* A stopped pool: which tasks are called back, with which result, and at what cost. */
#include "pool_rig.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "support/board.h"
#include "support/process.h"
#include "support/wait.h"

enum { HANG = 1, LOOK };

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct rig_job job = pool_rig_job(task);
	if (job.what == HANG)
		process_hang();
	while (job.what == LOOK && !gd_worker_cancelled(w, 0))
		poll(NULL, 0, 1);
	return job.what == LOOK ? -ECANCELED : pool_rig_reply(w, &job);
}

static const struct gd_worker_ops ops = {
	.size = sizeof(struct gd_worker_ops), .process = process, .cleanup = pool_rig_note_cleanup};

static int stops_setup(void **state)
{
	int r = pool_rig_setup(state);
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:1";
	rig->options.grace_ms = 50;
	return r;
}

/* Polls like a caller, each time until something happens, until the end. */
static void poll_to_the_end(struct pool_rig *rig)
{
	int r;
	do {
		uint64_t begin = clock_now_ns();
		r = gd_pool_poll(rig->pool, WAIT_MS, 0);
		assert_true(clock_now_ns() - begin < (uint64_t)WAIT_MS * NS_PER_MS);
	} while (r >= 0);
	assert_int_equal(r, -ECANCELED);
	assert_int_equal(gd_pool_outstanding(rig->pool), 0);
	pool_rig_check_books(rig);
}

/* ---- Given back ------------------------------------------------------------------- */

/* A stopped worker has a task and has not begun it; the head of its inbox is not taken back. */
static pid_t submit_to_the_stopped(struct pool_rig *rig)
{
	pool_rig_open(rig, &ops);
	pid_t pid = pool_rig_pid(rig, 0, 0);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	pool_rig_submit_many(rig, 3);
	return pid;
}

static void test_task_of_a_worker_killed_after_the_stop_is_called_back(void **state)
{
	struct pool_rig *rig = *state;
	pid_t pid = submit_to_the_stopped(rig);
	gd_pool_stop(rig->pool);
	while (gd_pool_poll(rig->pool, 0, 0) > 0)
		;
	assert_int_equal(gd_pool_outstanding(rig->pool), 1);
	process_kill(pid);
	poll_to_the_end(rig);
	assert_int_equal(rig->by_failure[GD_FAILURE_CANCELLED], 3);
	assert_int_equal(pool_rig_close(rig), 0);
}

static void test_a_task_given_back_after_two_stops_is_called_back(void **state)
{
	struct pool_rig *rig = *state;
	submit_to_the_stopped(rig);
	gd_pool_stop(rig->pool);
	gd_pool_stop(rig->pool);
	poll_to_the_end(rig);
	assert_int_equal(rig->by_failure[GD_FAILURE_CANCELLED], 3);
	assert_int_equal(pool_rig_close(rig), 0);
}

static int hang_with_batch(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t num_tasks)
{
	(void)w;
	(void)state;
	(void)tasks;
	(void)num_tasks;
	process_hang();
}

static void test_large_tasks_beside_a_hanging_batch_are_called_back(void **state)
{
	static const struct gd_worker_ops batches = {
		.size = sizeof(struct gd_worker_ops), .process_batch = hang_with_batch, .max_batch = 4};
	struct pool_rig *rig = *state;
	size_t size = (size_t)3 << 20;
	char *large = calloc(1, size);
	assert_non_null(large);
	pool_rig_open(rig, &batches);
	pool_rig_pid(rig, 0, 0);
	pool_rig_submit(rig, HANG, 0);
	pool_rig_await(rig, pool_rig_has_started);
	int r;
	while ((r = gd_pool_submit(rig->pool, large, size, NULL, NOWAIT, NULL)) == 0)
		rig->submitted++;
	free(large);
	assert_int_equal(r, -EAGAIN);
	assert_true(rig->submitted > 1);
	gd_pool_stop(rig->pool);
	gd_pool_stop(rig->pool);
	poll_to_the_end(rig);
	assert_int_equal(rig->by_failure[GD_FAILURE_CANCELLED], rig->submitted);
	assert_int_equal(pool_rig_close(rig), 0);
}

/* ---- With which result ------------------------------------------------------------ */

static void test_a_task_that_obeys_the_second_stop_is_cancelled(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.grace_ms = WAIT_MS;
	pool_rig_open(rig, &ops);
	pool_rig_submit(rig, LOOK, 0);
	pool_rig_await(rig, pool_rig_has_started);
	gd_pool_stop(rig->pool);
	gd_pool_stop(rig->pool);
	poll_to_the_end(rig);
	assert_int_equal(rig->by_failure[GD_FAILURE_CANCELLED], 1);
	assert_int_equal(rig->failure.event.code, -ECANCELED);
	assert_int_equal(rig->failure.event.slot, 0);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(atomic_load(&board->cleanups), 1); /* and its worker is alive */
}

static int endless(struct gd_worker *w, void **ret_state)
{
	(void)w;
	*ret_state = NULL;
	process_hang();
}

static void test_no_task_is_accepted_after_a_stop_even_before_the_next_poll(void **state)
{
	static const struct gd_worker_ops repliers = {
		.size = sizeof(struct gd_worker_ops), .process = pool_rig_just_reply};
	struct pool_rig *rig = *state;
	struct gd_draft *draft;
	void *data;
	pool_rig_open(rig, &repliers);
	pool_rig_pid(rig, 0, 0);
	assert_int_equal(gd_pool_reserve(rig->pool, 8, NULL, &draft, &data), 0);
	gd_pool_stop(rig->pool);
	assert_int_equal(gd_pool_submit(rig->pool, "x", 1, NULL, NULL, NULL), -ESHUTDOWN);
	assert_int_equal(gd_draft_commit(draft, 8, NULL, NULL), -ESHUTDOWN);
	assert_int_equal(gd_pool_reserve(rig->pool, 8, NULL, &draft, &data), -ESHUTDOWN);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.submitted, 0);
}

static void test_statistics_are_right_at_once_after_a_stop(void **state)
{
	static const struct gd_worker_ops never_ready = {
		.size = sizeof(struct gd_worker_ops), .setup = endless, .process = process};
	struct pool_rig *rig = *state;
	struct gd_stats stats;
	pool_rig_open(rig, &never_ready);
	pool_rig_submit_many(rig, 5);
	gd_pool_stop(rig->pool);
	poll_to_the_end(rig);
	gd_pool_stats(rig->pool, &stats, sizeof(stats));
	assert_int_equal(stats.submitted, 5);
	assert_int_equal(stats.cancelled, 5);
	assert_int_equal(stats.queued, 0);
	assert_int_equal(stats.running, 0);
	assert_int_equal(pool_rig_close(rig), 0);
}

/* ---- The cost --------------------------------------------------------------------- */

static uint64_t cpu_ns(void)
{
	struct timespec used;
	assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used), 0);
	return (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
}

static void test_three_stops_cost_no_cpu(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.grace_ms = 300;
	pool_rig_open(rig, &ops);
	pool_rig_submit(rig, HANG, 0);
	pool_rig_await(rig, pool_rig_has_started);
	for (int i = 0; i < 3; i++)
		gd_pool_stop(rig->pool);
	uint64_t before = cpu_ns();
	poll_to_the_end(rig);
	/* Busy polling would use processor time for the whole grace period. */
	assert_true(cpu_ns() - before < 150 * NS_PER_MS);
	assert_int_equal(rig->by_failure[GD_FAILURE_CANCELLED], 1);
	assert_int_equal(pool_rig_close(rig), 0);
}

#define STOP(test) cmocka_unit_test_setup_teardown(test, stops_setup, pool_rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STOP(test_task_of_a_worker_killed_after_the_stop_is_called_back),
		STOP(test_a_task_given_back_after_two_stops_is_called_back),
		STOP(test_large_tasks_beside_a_hanging_batch_are_called_back),
		STOP(test_a_task_that_obeys_the_second_stop_is_cancelled),
		STOP(test_no_task_is_accepted_after_a_stop_even_before_the_next_poll),
		STOP(test_statistics_are_right_at_once_after_a_stop),
		STOP(test_three_stops_cost_no_cpu),
	};
	return cmocka_run_group_tests_name("pool stops", tests, NULL, NULL);
}
