/* SPDX-License-Identifier: MIT */
/* Each worker gets a task before another gets its second one. */
#include "pool_rig.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>

#include "support/board.h"
#include "support/process.h"
#include "support/wait.h"

/* How long the first worker's setup takes, and so how much time the second one has. */
#define SETUP_MS 1500

static int count_in_slot(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct rig_job job = pool_rig_job(task);
	atomic_fetch_add(&board->notes[gd_worker_slot(w)], 1);
	return pool_rig_reply(w, &job);
}

static int first_takes_long_second_waits(struct gd_worker *w, void **ret_state)
{
	*ret_state = NULL;
	if (gd_worker_slot(w) == 0)
		poll(NULL, 0, SETUP_MS);
	else
		board_await(&board->go, 1);
	return 0;
}

static void open_with_three_tasks(struct pool_rig *rig, int (*setup)(struct gd_worker *w, void **ret_state))
{
	const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .setup = setup, .process = count_in_slot};
	rig->options.fair_start = 1;
	pool_rig_open(rig, &ops);
	pool_rig_submit_many(rig, 3);
}

static bool two_done(struct pool_rig *rig)
{
	return rig->successes >= 2;
}

static void test_a_task_is_kept_for_a_worker_in_setup(void **state)
{
	struct pool_rig *rig = *state;
	open_with_three_tasks(rig, first_takes_long_second_waits);
	pool_rig_await(rig, two_done);
	assert_int_equal(gd_pool_poll(rig->pool, 0, 0), 0);
	assert_int_equal(atomic_load(&board->notes[0]), 2);
	atomic_store(&board->go, 1);
	pool_rig_drain(rig);
	assert_int_equal(atomic_load(&board->notes[0]), 2);
	assert_int_equal(atomic_load(&board->notes[1]), 1);
	assert_int_equal(pool_rig_close(rig), 0);
}

static int second_is_never_ready(struct gd_worker *w, void **ret_state)
{
	*ret_state = NULL;
	if (gd_worker_slot(w) == 1)
		process_hang();
	return 0;
}

static void test_a_task_is_not_kept_for_an_endless_setup(void **state)
{
	struct pool_rig *rig = *state;
	open_with_three_tasks(rig, second_is_never_ready);
	pool_rig_drain(rig);
	assert_int_equal(atomic_load(&board->notes[0]), 3);
	assert_int_equal(pool_rig_close(rig), 0);
}

static void test_a_task_is_not_kept_for_a_worker_that_is_lost(void **state)
{
	struct pool_rig *rig = *state;
	open_with_three_tasks(rig, first_takes_long_second_waits);
	pool_rig_await(rig, two_done);
	pid_t pid = (pid_t)pool_rig_worker(rig, 1).pid;
	assert_true(pid > 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	pool_rig_drain(rig);
	assert_int_equal(atomic_load(&board->notes[0]), 3);
	assert_int_equal(rig->setup_failures, 1);
	assert_int_equal(pool_rig_close(rig), 0);
}

static void test_workers_that_are_ready_share_as_many_tasks_as_there_are_workers(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = count_in_slot};
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:4";
	rig->options.fair_start = 1;
	pool_rig_open(rig, &ops);
	assert_int_equal(gd_pool_wait_ready(rig->pool, WAIT_MS), 4);
	for (int i = 0; i < 4; i++) {
		pool_rig_submit(rig, 0, 0);
		pool_rig_drain(rig); /* the worker that had the last task is idle and known to be quick */
	}
	for (int i = 0; i < 4; i++)
		assert_int_equal(atomic_load(&board->notes[i]), 1);
	assert_int_equal(pool_rig_close(rig), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		pool_rig_test(test_a_task_is_kept_for_a_worker_in_setup),
		pool_rig_test(test_a_task_is_not_kept_for_an_endless_setup),
		pool_rig_test(test_a_task_is_not_kept_for_a_worker_that_is_lost),
		pool_rig_test(test_workers_that_are_ready_share_as_many_tasks_as_there_are_workers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
