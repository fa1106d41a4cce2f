/* SPDX-License-Identifier: MIT */
/* Setup and the end of a worker: no result is lost, order, the last hook. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool_rig.h"
#include "support/board.h"
#include "support/process.h"
#include "support/wait.h"

enum { NOTE_LEFT, NOTE_LEFT_UNCLEANED, NOTE_IN_SETUP, NOTE_MOST_IN_SETUP };

static void note_leave(struct gd_worker *w)
{
	(void)w;
	if (atomic_load(&board->cleanups) == 0)
		atomic_fetch_add(&board->notes[NOTE_LEFT_UNCLEANED], 1);
	atomic_fetch_add(&board->notes[NOTE_LEFT], 1);
}

/* The given setup, and other hooks that count. */
static struct gd_worker_ops with_setup(int (*setup)(struct gd_worker *w, void **ret_state))
{
	return (struct gd_worker_ops){
		.size = sizeof(struct gd_worker_ops),
		.setup = setup,
		.process = pool_rig_just_reply,
		.cleanup = pool_rig_note_cleanup,
		.on_leave = note_leave,
	};
}

/* ---- A setup that fails ------------------------------------------------- */

static int fail_on_gpu_1(struct gd_worker *w, void **ret_state)
{
	*ret_state = NULL;
	return gd_worker_gpu(w) == 1 ? gd_worker_fail(w, -ENOENT, "no model") : 0;
}

static void test_failed_setup_is_reported_in_each_of_40_short_runs(void **state)
{
	const struct gd_worker_ops ops = with_setup(fail_on_gpu_1);
	for (int i = 0; i < 40; i++) {
		struct pool_rig *rig = pool_rig_again(state);
		pool_rig_open(rig, &ops);
		pool_rig_submit(rig, 0, 0);
		pool_rig_drain(rig);
		assert_int_equal(pool_rig_close(rig), 0);
		assert_int_equal(rig->setup_failures, 1);
		assert_int_equal(rig->close_stats.setup_failures, 1);
		assert_string_equal(rig->setup_failure.message, "no model");
		assert_int_equal(rig->setup_failure.event.code, -ENOENT);
	}
}

static void test_failed_setup_is_reported_by_a_close_that_follows_at_once(void **state)
{
	const struct gd_worker_ops ops = with_setup(fail_on_gpu_1);
	for (int i = 0; i < 10; i++) {
		struct pool_rig *rig = pool_rig_again(state);
		pool_rig_open(rig, &ops);
		assert_int_equal(pool_rig_close(rig), 0);
		assert_int_equal(rig->setup_failures, 1);
		assert_int_equal(atomic_load(&board->cleanups), 1);
		assert_int_equal(atomic_load(&board->notes[NOTE_LEFT]), 2);
	}
}

static int fail_or_crash(struct gd_worker *w, void **ret_state)
{
	*ret_state = NULL;
	if (gd_worker_slot(w) == 1)
		abort();
	return gd_worker_slot(w) == 0 ? gd_worker_fail(w, -ENOENT, "no model") : 0;
}

static int setup_in_time(struct gd_worker *w, void **ret_state)
{
	(void)w;
	*ret_state = NULL;
	atomic_fetch_add(&board->setups, 1);
	return 0;
}

/* The record waits to be read for much longer than the limit. False if a setup was not done in time. */
static bool set_up_while_nobody_polls(struct pool_rig *rig)
{
	const struct gd_worker_ops ops = with_setup(setup_in_time);
	rig->options.setup_timeout_ms = 100;
	pool_rig_open(rig, &ops);
	poll(NULL, 0, 500);
	int ready = gd_pool_wait_ready(rig->pool, WAIT_MS);
	gd_pool_close(rig->pool, &rig->close_stats, sizeof(rig->close_stats), NULL);
	assert_int_equal(rig->close_stats.restarts, 0);
	return ready == 2 && rig->setup_failures == 0;
}

static void test_setup_that_is_done_in_time_is_not_killed_while_nobody_polls(void **state)
{
	pool_rig_try(set_up_while_nobody_polls(pool_rig_again(state)));
}

static void test_stats_say_why_a_worker_was_lost(void **state)
{
	const struct gd_worker_ops ops = with_setup(fail_or_crash);
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:3";
	pool_rig_open(rig, &ops);
	assert_int_equal(gd_pool_wait_ready(rig->pool, WAIT_MS), 1);
	assert_int_equal(pool_rig_worker(rig, 0).state, GD_WORKER_STATE_LOST);
	assert_string_equal(pool_rig_worker(rig, 0).message, "no model");
	check_contains(pool_rig_worker(rig, 1).message, "the worker crashed in setup: SIGABRT");
	assert_string_equal(pool_rig_worker(rig, 2).message, "");
	assert_int_equal(pool_rig_close(rig), 0);
}

/* ---- A setup that is running when the pool ends ------------------------- */

enum { END_SUCCEED, END_GIVE_UP, END_FAIL, END_HANG };

static int until_cancelled(struct gd_worker *w, void **ret_state)
{
	*ret_state = NULL;
	atomic_fetch_add(&board->setups, 1);
	int how = atomic_load(&board->go);
	if (how == END_HANG)
		process_hang();
	while (!gd_worker_cancelled(w, 0))
		usleep(1000);
	if (how == END_SUCCEED)
		return 0;
	return how == END_GIVE_UP ? -ECANCELED : gd_worker_fail(w, -EIO, "disk is gone");
}

static void open_in_setup(struct pool_rig *rig, int how)
{
	atomic_store(&board->go, how);
	const struct gd_worker_ops ops = with_setup(until_cancelled);
	pool_rig_open(rig, &ops);
	board_await(&board->setups, 2);
}

static void test_setup_that_succeeds_during_close_is_cleaned_up(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.grace_ms = WAIT_MS;
	open_in_setup(rig, END_SUCCEED);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(atomic_load(&board->cleanups), 2);
	assert_int_equal(rig->setup_failures, 0);
	assert_int_equal(rig->cleanup_failures, 0);
}

static void test_setup_that_gives_up_during_close_has_not_failed(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.grace_ms = WAIT_MS;
	open_in_setup(rig, END_GIVE_UP);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(atomic_load(&board->cleanups), 0);
	assert_int_equal(rig->setup_failures, 0);
	assert_int_equal(rig->close_stats.setup_failures, 0);
	assert_int_equal(atomic_load(&board->notes[NOTE_LEFT]), 2);
}

static void test_setup_that_fails_during_close_is_reported(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.grace_ms = WAIT_MS;
	open_in_setup(rig, END_FAIL);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->setup_failures, 2);
	assert_int_equal(rig->close_stats.setup_failures, 2);
	assert_string_equal(rig->setup_failure.message, "disk is gone");
}

static void test_setup_that_does_not_end_is_killed_after_the_grace_period(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.grace_ms = 20;
	open_in_setup(rig, END_HANG);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->setup_failures, 0);
	assert_int_equal(atomic_load(&board->cleanups), 0);
	assert_int_equal(atomic_load(&board->notes[NOTE_LEFT]), 0);
}

static bool all_ready(struct pool_rig *rig)
{
	return pool_rig_worker(rig, 0).state == GD_WORKER_STATE_IDLE &&
	       pool_rig_worker(rig, 1).state == GD_WORKER_STATE_IDLE;
}

static void test_stop_cancels_setups(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.grace_ms = WAIT_MS;
	open_in_setup(rig, END_SUCCEED);
	gd_pool_stop(rig->pool);
	pool_rig_await(rig, all_ready);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(atomic_load(&board->cleanups), 2);
	assert_int_equal(rig->setup_failures, 0);
}

static int fail_cleanup(struct gd_worker *w, void *state)
{
	(void)state;
	/* The setup was cancelled; its cleanup still runs. */
	return gd_worker_fail(w, -EIO, gd_worker_cancelled(w, 0) ? "cancelled" : "cannot save");
}

static void test_failed_cleanup_after_a_late_setup_is_reported(void **state)
{
	struct gd_worker_ops ops = with_setup(until_cancelled);
	struct pool_rig *rig = *state;
	ops.cleanup = fail_cleanup;
	rig->options.grace_ms = WAIT_MS;
	pool_rig_open(rig, &ops);
	board_await(&board->setups, 2);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->cleanup_failures, 2);
	assert_string_equal(rig->cleanup_failure.message, "cannot save");
}

/* ---- The last hook ------------------------------------------------------ */

static int crash(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)w;
	(void)state;
	(void)task;
	abort();
}

static void test_last_hook_runs_after_cleanup(void **state)
{
	const struct gd_worker_ops ops = with_setup(pool_rig_note_setup);
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:1";
	pool_rig_open(rig, &ops);
	assert_int_equal(gd_pool_wait_ready(rig->pool, WAIT_MS), 1);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(atomic_load(&board->notes[NOTE_LEFT]), 1);
	assert_int_equal(atomic_load(&board->notes[NOTE_LEFT_UNCLEANED]), 0);
}

static void test_last_hook_does_not_run_after_a_crash(void **state)
{
	struct gd_worker_ops ops = with_setup(pool_rig_note_setup);
	struct pool_rig *rig = *state;
	ops.process = crash;
	rig->options.gpus = "sim:1";
	pool_rig_open(rig, &ops);
	pool_rig_submit(rig, 0, 0);
	pool_rig_drain(rig);
	assert_int_equal(atomic_load(&board->notes[NOTE_LEFT]), 0);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(atomic_load(&board->notes[NOTE_LEFT]), 1); /* the replacement */
}

static void hang(struct gd_worker *w)
{
	(void)w;
	process_hang();
}

/* False if the cleanup of the other worker was late. */
static bool fail_setup_and_hang(struct pool_rig *rig)
{
	struct gd_worker_ops ops = with_setup(fail_on_gpu_1);
	ops.on_leave = hang;
	rig->options.cleanup_timeout_ms = 20;
	pool_rig_open(rig, &ops);
	pool_rig_await(rig, pool_rig_has_setup_failure);
	assert_string_equal(rig->setup_failure.message, "no model");
	assert_int_equal(pool_rig_close(rig), 0);
	return rig->cleanup_failures == 0;
}

static void test_last_hook_that_hangs_is_ended_and_the_failed_setup_reported(void **state)
{
	pool_rig_try(fail_setup_and_hang(pool_rig_again(state)));
}

/* ---- Concurrent setups -------------------------------------------------- */

/* Waits at the gate; records the largest number of concurrent setups. */
static int wait_at_gate(struct gd_worker *w, void **ret_state)
{
	(void)w;
	*ret_state = NULL;
	int here = atomic_fetch_add(&board->notes[NOTE_IN_SETUP], 1) + 1;
	if (here > atomic_load(&board->notes[NOTE_MOST_IN_SETUP]))
		atomic_store(&board->notes[NOTE_MOST_IN_SETUP], here);
	atomic_fetch_add(&board->setups, 1);
	bool passed = board_pass_gate(0);
	atomic_fetch_sub(&board->notes[NOTE_IN_SETUP], 1);
	return passed ? 0 : -ETIMEDOUT;
}

static int setups_due;

static bool setups_have_begun(struct pool_rig *rig)
{
	(void)rig;
	return atomic_load(&board->setups) >= setups_due;
}

static int count_processes(struct pool_rig *rig, int num_slots)
{
	int count = 0;
	for (int slot = 0; slot < num_slots; slot++)
		count += pool_rig_worker(rig, slot).pid > 0;
	return count;
}

static void test_setup_concurrency_limits_running_setups(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:4";
	rig->options.setup_concurrency = 1;
	const struct gd_worker_ops ops = with_setup(wait_at_gate);
	pool_rig_open(rig, &ops);
	for (int n = 1; n <= 4; n++) {
		setups_due = n;
		pool_rig_await(rig, setups_have_begun);
		/* Waiting workers have no process. */
		assert_true(count_processes(rig, 4) <= n);
		board_open_gate(0);
	}
	assert_int_equal(gd_pool_wait_ready(rig->pool, WAIT_MS), 4);
	assert_int_equal(atomic_load(&board->notes[NOTE_MOST_IN_SETUP]), 1);
	assert_int_equal(pool_rig_close(rig), 0);
}

static bool both_are_replaced(struct pool_rig *rig)
{
	return pool_rig_worker(rig, 0).restarts == 1 && pool_rig_worker(rig, 1).restarts == 1;
}

static void test_replacements_wait_for_their_turn_as_well(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.setup_concurrency = 1;
	for (int i = 0; i < 4; i++)
		board_open_gate(0);
	const struct gd_worker_ops ops = with_setup(wait_at_gate);
	pool_rig_open(rig, &ops);
	assert_int_equal(gd_pool_wait_ready(rig->pool, WAIT_MS), 2);
	sem_init(&board->gates[0], 1, 0);
	for (int slot = 0; slot < 2; slot++)
		process_kill((pid_t)pool_rig_worker(rig, slot).pid);
	pool_rig_await(rig, both_are_replaced);
	assert_true(count_processes(rig, 2) <= 1);
	for (int n = 3; n <= 4; n++) {
		setups_due = n;
		pool_rig_await(rig, setups_have_begun);
		board_open_gate(0);
	}
	assert_int_equal(gd_pool_wait_ready(rig->pool, WAIT_MS), 2);
	assert_int_equal(atomic_load(&board->notes[NOTE_MOST_IN_SETUP]), 1);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.restarts, 2);
}

static void test_failed_and_crashed_setups_give_their_turn_on(void **state)
{
	const struct gd_worker_ops ops = with_setup(fail_or_crash);
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:4";
	rig->options.setup_concurrency = 1;
	pool_rig_open(rig, &ops);
	assert_int_equal(gd_pool_wait_ready(rig->pool, WAIT_MS), 2);
	assert_int_equal(rig->setup_failures, 2);
	assert_int_equal(pool_rig_close(rig), 0);
}

static void test_worker_that_waits_for_its_turn_is_not_started_at_the_end(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:3";
	rig->options.setup_concurrency = 1;
	rig->options.grace_ms = 20;
	atomic_store(&board->go, END_HANG);
	const struct gd_worker_ops ops = with_setup(until_cancelled);
	pool_rig_open(rig, &ops);
	board_await(&board->setups, 1);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(atomic_load(&board->setups), 1);
	assert_int_equal(rig->setup_failures, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		pool_rig_test(test_failed_setup_is_reported_in_each_of_40_short_runs),
		pool_rig_test(test_failed_setup_is_reported_by_a_close_that_follows_at_once),
		pool_rig_test(test_setup_that_is_done_in_time_is_not_killed_while_nobody_polls),
		pool_rig_test(test_stats_say_why_a_worker_was_lost),
		pool_rig_test(test_setup_that_succeeds_during_close_is_cleaned_up),
		pool_rig_test(test_setup_that_gives_up_during_close_has_not_failed),
		pool_rig_test(test_setup_that_fails_during_close_is_reported),
		pool_rig_test(test_setup_that_does_not_end_is_killed_after_the_grace_period),
		pool_rig_test(test_stop_cancels_setups),
		pool_rig_test(test_failed_cleanup_after_a_late_setup_is_reported),
		pool_rig_test(test_last_hook_runs_after_cleanup),
		pool_rig_test(test_last_hook_does_not_run_after_a_crash),
		pool_rig_test(test_last_hook_that_hangs_is_ended_and_the_failed_setup_reported),
		pool_rig_test(test_setup_concurrency_limits_running_setups),
		pool_rig_test(test_replacements_wait_for_their_turn_as_well),
		pool_rig_test(test_failed_and_crashed_setups_give_their_turn_on),
		pool_rig_test(test_worker_that_waits_for_its_turn_is_not_started_at_the_end),
	};
	return cmocka_run_group_tests_name("pool_setup", tests, NULL, NULL);
}
