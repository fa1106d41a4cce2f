/* SPDX-License-Identifier: MIT */
/* on_setup_cancel: setups are interrupted when the pool ends or they time out. And setups that do not return. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool_rig.h"
#include "support/board.h"
#include "support/process.h"
#include "support/wait.h"

enum { GIVE_UP, FAIL, SUCCEED, HANG, RETURN_AT_ONCE };
#define SETUP_MS 400 /* long enough for the setup to begin, even on a busy machine */

enum { NOTE_CALLS, NOTE_TASK_CALLS, NOTE_LEFT };

static int waker[2] = {-1, -1}; /* on_setup_cancel writes to it: no signal is missed */

static void interrupt_setup(struct gd_worker *w)
{
	(void)w;
	if (board)
		atomic_fetch_add(&board->notes[NOTE_CALLS], 1);
	/* Called before setup() if the pool has already ended. */
	if (waker[1] >= 0 && write(waker[1], "", 1) < 0)
		abort();
}

static void interrupt_task(struct gd_worker *w, void *state)
{
	(void)w;
	(void)state;
	atomic_fetch_add(&board->notes[NOTE_TASK_CALLS], 1);
}

static void wait_for_interrupt(struct gd_worker *w)
{
	char byte;
	if (pipe(waker) < 0)
		abort();
	while (!gd_worker_cancelled(w, 0))
		if (read(waker[0], &byte, 1) < 0 && errno != EINTR)
			abort();
}

static int wait_in_setup(struct gd_worker *w, void **ret_state)
{
	*ret_state = NULL;
	int how = board ? atomic_load(&board->go) : GIVE_UP;
	if (board)
		atomic_fetch_add(&board->setups, 1);
	if (how == RETURN_AT_ONCE)
		return 0;
	if (how == HANG)
		process_hang();
	wait_for_interrupt(w);
	if (how == SUCCEED)
		return 0;
	int reason = gd_worker_cancel_reason(w, 0);
	return how == GIVE_UP ? reason : gd_worker_fail(w, -EIO, "%s", reason == -ETIMEDOUT ? "late" : "not late");
}

static int answer_or_crash(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct rig_job job = pool_rig_job(task);
	if (job.what != 0)
		abort();
	return pool_rig_reply(w, &job);
}

static void note_leave(struct gd_worker *w)
{
	(void)w;
	atomic_fetch_add(&board->notes[NOTE_LEFT], 1);
}

static const struct gd_worker_ops ops = {
	.size = sizeof(ops),
	.setup = wait_in_setup,
	.process = answer_or_crash,
	.cleanup = pool_rig_note_cleanup,
	.on_cancel = interrupt_task,
	.on_setup_cancel = interrupt_setup,
};

static void open_with(struct pool_rig *rig, int how)
{
	atomic_store(&board->go, how);
	if (!rig->options.grace_ms)
		rig->options.grace_ms = 10 * WAIT_MS;
	pool_rig_open(rig, &ops);
}

/* ---- The end of the pool ------------------------------------------------ */

static void test_close_interrupts_setups(void **state)
{
	struct pool_rig *rig = *state;
	open_with(rig, GIVE_UP);
	board_await(&board->setups, 2);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->setup_failures, 0);
	assert_int_equal(atomic_load(&board->notes[NOTE_CALLS]), 2);
	assert_int_equal(atomic_load(&board->notes[NOTE_TASK_CALLS]), 0);
	assert_int_equal(atomic_load(&board->cleanups), 0);
}

static void test_stop_interrupts_setups(void **state)
{
	struct pool_rig *rig = *state;
	open_with(rig, SUCCEED);
	board_await(&board->setups, 2);
	gd_pool_stop(rig->pool);
	assert_int_equal(gd_pool_wait_ready(rig->pool, WAIT_MS), 2);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(atomic_load(&board->cleanups), 2);
}

/* The signal comes before there is a handler, between that and setup(), or in setup(). */
static void test_setup_that_has_just_begun_is_interrupted(void **state)
{
	for (int i = 0; i < 40; i++) {
		struct pool_rig *rig = pool_rig_again(state);
		open_with(rig, GIVE_UP);
		if (i % 2)
			gd_pool_poll(rig->pool, 0, 0);
		assert_int_equal(pool_rig_close(rig), 0);
		assert_int_equal(rig->setup_failures, 0);
	}
}

static void test_setup_of_an_executed_worker_is_interrupted(void **state)
{
	static const char *const argv[] = {"/proc/self/exe", "--worker", NULL};
	struct pool_rig *rig = *state;
	rig->options.worker_argv = argv;
	rig->options.grace_ms = 10 * WAIT_MS;
	pool_rig_open(rig, NULL);
	gd_pool_poll(rig->pool, 0, 0);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->setup_failures, 0);
}

/* ---- Time limits -------------------------------------------------------- */

static void test_setup_that_is_out_of_time_is_interrupted(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:1";
	rig->options.setup_timeout_ms = SETUP_MS;
	open_with(rig, FAIL);
	pool_rig_await(rig, pool_rig_has_setup_failure);
	assert_int_equal(rig->setup_failure.event.failure, GD_FAILURE_TIMED_OUT);
	assert_int_equal(rig->setup_failure.event.code, -ETIMEDOUT);
	assert_string_equal(rig->setup_failure.message, "late");
	assert_int_equal(pool_rig_close(rig), 0);
}

static void test_setup_that_does_not_react_is_killed_after_the_grace_period(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:1";
	rig->options.setup_timeout_ms = SETUP_MS;
	rig->options.grace_ms = 20;
	open_with(rig, HANG);
	pool_rig_await(rig, pool_rig_has_setup_failure);
	assert_int_equal(rig->setup_failure.event.failure, GD_FAILURE_TIMED_OUT);
	assert_string_equal(rig->setup_failure.message, "setup did not finish within 400 ms");
	assert_int_equal(atomic_load(&board->notes[NOTE_CALLS]), 1);
	assert_int_equal(pool_rig_close(rig), 0);
}

/* It has its model, which should not be thrown away. */
static void test_setup_that_succeeds_in_the_grace_period_is_used(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:1";
	rig->options.setup_timeout_ms = SETUP_MS;
	open_with(rig, SUCCEED);
	assert_int_equal(gd_pool_wait_ready(rig->pool, WAIT_MS), 1);
	atomic_store(&board->go, RETURN_AT_ONCE);
	pool_rig_submit(rig, 0, 0);
	pool_rig_submit(rig, 1, 0);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 1);
	assert_int_equal(rig->failure.event.failure, GD_FAILURE_CRASHED);
	check_contains(rig->failure.message, "the worker crashed while it was running: SIGABRT");
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->setup_failures, 0);
}

/* ---- Setups that do not return ------------------------------------------ */

static int continue_from_setup(struct gd_worker *w, void **ret_state)
{
	static int model;
	(void)ret_state;
	int result = 0;
	if (gd_worker_gpu(w) == 1)
		result = gd_worker_fail(w, -ENOENT, "no model");
	gd_worker_continue(w, &model, result);
	abort();
}

static int reply_with_state(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	return state ? pool_rig_just_reply(w, state, task) : -EPROTO;
}

static void test_setup_continues_as_worker_without_returning(void **state)
{
	static const struct gd_worker_ops continuing = {
		.size = sizeof(continuing),
		.setup = continue_from_setup,
		.process = reply_with_state,
		.cleanup = pool_rig_note_cleanup,
		.on_leave = note_leave,
	};
	struct pool_rig *rig = *state;
	pool_rig_open(rig, &continuing);
	assert_int_equal(gd_pool_wait_ready(rig->pool, WAIT_MS), 1);
	assert_string_equal(rig->setup_failure.message, "no model");
	for (int i = 0; i < 10; i++)
		pool_rig_submit(rig, 0, 0);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 10);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(atomic_load(&board->cleanups), 1);
	assert_int_equal(atomic_load(&board->notes[NOTE_LEFT]), 2);
}

int main(int argc, char **args)
{
	if (argc > 1 && strcmp(args[1], "--worker") == 0)
		return gd_worker_main(&ops);
	const struct CMUnitTest tests[] = {
		pool_rig_test(test_close_interrupts_setups),
		pool_rig_test(test_stop_interrupts_setups),
		pool_rig_test(test_setup_that_has_just_begun_is_interrupted),
		pool_rig_test(test_setup_of_an_executed_worker_is_interrupted),
		pool_rig_test(test_setup_that_is_out_of_time_is_interrupted),
		pool_rig_test(test_setup_that_does_not_react_is_killed_after_the_grace_period),
		pool_rig_test(test_setup_that_succeeds_in_the_grace_period_is_used),
		pool_rig_test(test_setup_continues_as_worker_without_returning),
	};
	return cmocka_run_group_tests_name("pool_setup_cancel", tests, NULL, NULL);
}
