/* SPDX-License-Identifier: MIT */
/* Limits of time: of tasks, setup and cleanup; and that nothing holds them back. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab.h"

#define MS 1000000u

static _Noreturn void ignore_everything_and_spin(void)
{
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_IGN);
	for (volatile unsigned spin = 0;; spin++)
		;
}

/* Task 3 never ends and listens to nobody. */
static int one_spins(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	if (lab_number(task) == 3)
		ignore_everything_and_spin();
	return lab_echo(w, state, task);
}

static void test_20_ms_end_a_task_that_ignores_signals(void **state)
{
	static const struct gd_worker_ops ops = {.process = one_spins};
	struct lab *lab = *state;
	lab->options.task_timeout_ms = 20;
	lab->options.grace_ms = 1;
	assert_int_equal(lab_run(lab, &ops), 0);
	lab_assert_complete(lab);
	/* On a machine as loaded as one that tests, another may be over its time as well: not wrong, but rare. */
	assert_in_range(lab->count[LAB_TIMEOUT], 1, 3);
	assert_int_equal(lab->count[LAB_ERROR], 0);
	const struct lab_note *n = NULL;
	for (size_t i = 0; i < lab->count[LAB_TIMEOUT]; i++)
		if (lab_note(lab, LAB_TIMEOUT, i)->event.id == 3)
			n = lab_note(lab, LAB_TIMEOUT, i);
	assert_non_null(n);
	assert_int_equal(n->event.failure, GD_TIMED_OUT);
	assert_int_equal(n->event.code, -ETIMEDOUT);
	lab_assert_contains(n->message, "not done within 20 ms");
	uint64_t took = n->event.ended_ns - n->event.started_ns;
	assert_true(took >= 20 * MS);
	assert_true(took < 5000ull * MS);
	assert_int_equal(lab->stats.timeouts, lab->count[LAB_TIMEOUT]);
	assert_true(lab->stats.restarts >= 1);
}

/* ---- A task that looks -------------------------------------------------- */

static int load(struct gd_worker *w, void **ret_state)
{
	(void)w;
	atomic_fetch_add(&lab_shared->words[0], 1);
	*ret_state = calloc(1, sizeof(uint64_t));
	return 0;
}

static int look_and_leave(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	uint64_t *count = state;
	++*count;
	if (lab_number(task) % 4 == 1) {
		while (!gd_cancelled(w))
			poll(NULL, 0, 1);
		return gd_fail(w, -ECANCELED, "gave up");
	}
	return gd_result(w, count, sizeof(*count));
}

static int drop(struct gd_worker *w, void *state)
{
	(void)w;
	free(state);
	return 0;
}

static void test_a_task_that_looks_keeps_its_worker_and_its_state(void **state)
{
	static const struct gd_worker_ops ops = {.setup = load, .process = look_and_leave, .cleanup = drop};
	struct lab *lab = *state;
	lab->options.gpus = "sim:1";
	lab->options.task_timeout_ms = 30;
	lab->options.grace_ms = 20000;
	lab->tasks = 12;
	assert_int_equal(lab_run(lab, &ops), 0);
	lab_assert_complete(lab);
	assert_in_range(lab->count[LAB_TIMEOUT], 3, 6);
	assert_int_equal(lab->stats.restarts, 0);
	assert_int_equal(lab->shared->words[0], 1);
	uint64_t most = 0;
	for (size_t i = 0; i < lab->count[LAB_SUCCESS]; i++)
		if (lab_note(lab, LAB_SUCCESS, i)->result > most)
			most = lab_note(lab, LAB_SUCCESS, i)->result;
	assert_int_equal(most, 12);
	for (size_t i = 0; i < lab->count[LAB_TIMEOUT]; i++)
		assert_string_equal(lab_note(lab, LAB_TIMEOUT, i)->message, "not done within 30 ms");
}

static int spin_once(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	if (gd_worker_attempt(w, 0) == 1 && lab_number(task) == 3)
		ignore_everything_and_spin();
	return lab_echo(w, state, task);
}

static void test_a_task_that_timed_out_is_tried_again(void **state)
{
	static const struct gd_worker_ops ops = {.process = spin_once};
	struct lab *lab = *state;
	lab->options.task_timeout_ms = 100;
	lab->options.grace_ms = 1;
	lab->options.retries = 3;
	assert_int_equal(lab_run(lab, &ops), 0);
	lab_assert_complete(lab);
	assert_int_equal(lab->count[LAB_SUCCESS], 10);
	assert_true(lab->stats.retries >= 1);
	assert_int_equal(lab->stats.timeouts, 0);
}

/* ---- How exact ---------------------------------------------------------- */

static int wait_as_told(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	uint64_t begin = lab_now();
	while (!gd_cancelled(w) && lab_now() - begin < 10000ull * MS)
		;
	return lab_echo(w, state, task);
}

static void test_the_clock_has_milliseconds(void **state)
{
	static const struct gd_worker_ops ops = {.process = wait_as_told};
	struct lab *lab = *state;
	lab->options.gpus = "sim:1";
	lab->options.grace_ms = 20000;
	static const int64_t limits[] = {2, 15, 60};
	for (int i = 0; i < 3; i++) {
		lab->given = lab->num_notes = 0;
		memset(lab->count, 0, sizeof(lab->count));
		lab->options.task_timeout_ms = limits[i];
		lab->tasks = 5;
		assert_int_equal(lab_run(lab, &ops), 0);
		gd_destroy(lab->dispatcher);
		lab->dispatcher = NULL;
		assert_int_equal(lab->count[LAB_TIMEOUT], 5);
		int in_time = 0;
		uint64_t last_end = 0;
		for (int k = 0; k < 5; k++) {
			const struct gd_event *e = &lab_note(lab, LAB_TIMEOUT, (size_t)k)->event;
			/* Its time runs from when it is its turn, whether its worker has looked or not. */
			uint64_t turn = e->queued_ns > last_end ? e->queued_ns : last_end;
			/* Never before its time; both clocks are read a little less often than that. */
			assert_true(e->ended_ns - turn + MS / 100 >= (uint64_t)limits[i] * MS);
			in_time += e->ended_ns - e->started_ns < ((uint64_t)limits[i] * 2 + 100) * MS;
			last_end = e->ended_ns;
		}
		/* A busy machine may keep some of them waiting. */
		assert_true(in_time >= 3);
	}
}

static int last_ones_slow(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	if (lab_number(task) % 10 == 9)
		poll(NULL, 0, 5);
	return lab_echo(w, state, task);
}

static void test_tasks_within_their_time_are_left_alone(void **state)
{
	static const struct gd_worker_ops ops = {.process = last_ones_slow};
	struct lab *lab = *state;
	lab->options.task_timeout_ms = 10000;
	lab->tasks = 1000;
	assert_int_equal(lab_run(lab, &ops), 0);
	lab_assert_complete(lab);
	assert_int_equal(lab->count[LAB_SUCCESS], 1000);
}

/* ---- A callback that blocks --------------------------------------------- */

static int answer_or_spin(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	uint64_t n = lab_number(task);
	if (n == 1) {
		atomic_store(&lab_shared->words[0], (uint64_t)getpid());
		lab_open(0);
		ignore_everything_and_spin();
	}
	if (n == 0)
		lab_pass(1); /* its callback is to come while the other one spins */
	return gd_result(w, &n, sizeof(n));
}

static int block_until_it_is_killed(struct lab *lab, const struct lab_note *note, const struct gd_event *event)
{
	(void)event;
	if (note->kind == LAB_START && note->event.id == 1)
		lab_open(1);
	if (note->kind == LAB_SUCCESS && note->event.id == 0)
		lab->extra = lab_pass(0) && lab_gone((pid_t)lab->shared->words[0]) ? lab : NULL;
	return 0;
}

static void test_a_callback_that_blocks_holds_back_no_timeout(void **state)
{
	static const struct gd_worker_ops ops = {.process = answer_or_spin};
	struct lab *lab = *state;
	lab->options.task_timeout_ms = 300;
	lab->options.grace_ms = 1;
	lab->tasks = 2;
	lab->on_note = block_until_it_is_killed;
	assert_int_equal(lab_run(lab, &ops), 0);
	lab_assert_complete(lab);
	assert_non_null(lab->extra); /* it was gone before the callback returned */
	assert_int_equal(lab->count[LAB_TIMEOUT], 1);
}

/* Eight answers of 1 MiB, where four have room: the rest waits until those were called back. */
static int large_results(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t n)
{
	static char result[1 << 20];
	(void)state;
	(void)tasks;
	for (size_t i = 0; i < n; i++)
		gd_batch_result(w, i, result, sizeof(result));
	return 0;
}

static int slow(struct lab *lab, const struct lab_note *note, const struct gd_event *event)
{
	(void)lab;
	(void)event;
	if (note->kind == LAB_SUCCESS)
		poll(NULL, 0, 100);
	return 0;
}

static void test_waiting_for_a_slow_callback_is_not_the_tasks_time(void **state)
{
	static const struct gd_worker_ops ops = {.process_batch = large_results, .max_batch = 8};
	struct lab *lab = *state;
	lab->options.gpus = "sim:1";
	lab->options.task_timeout_ms = 150;
	lab->options.grace_ms = 50;
	lab->options.on_task_start = NULL;
	lab->tasks = 16;
	lab->on_note = slow;
	assert_int_equal(lab_run(lab, &ops), 0);
	lab_assert_complete(lab);
	/* A machine that stands still for 150 ms may cost one. */
	assert_in_range(lab->count[LAB_SUCCESS], 15, 16);
}

/* ---- Setup and cleanup -------------------------------------------------- */

static int slot_0_hangs_in_setup(struct gd_worker *w, void **ret_state)
{
	(void)ret_state;
	if (gd_worker_slot(w) == 0)
		ignore_everything_and_spin();
	return 0;
}

static void test_a_setup_that_hangs_takes_its_slot_out(void **state)
{
	static const struct gd_worker_ops ops = {.setup = slot_0_hangs_in_setup, .process = lab_echo};
	struct lab *lab = *state;
	lab->options.setup_timeout_ms = 400;
	assert_int_equal(lab_run(lab, &ops), 0);
	/* The run may be over before the time is: then it is killed and nobody is told. */
	assert_int_equal(lab->count[LAB_SUCCESS], 10);
	lab_assert_complete(lab);
}

static int hang_in_setup(struct gd_worker *w, void **ret_state)
{
	(void)w;
	(void)ret_state;
	ignore_everything_and_spin();
}

static void test_setups_that_all_hang_end_the_run(void **state)
{
	static const struct gd_worker_ops ops = {.setup = hang_in_setup, .process = lab_echo};
	struct lab *lab = *state;
	lab->options.setup_timeout_ms = 50;
	lab->options.queue_size = 3;
	assert_int_equal(lab_run(lab, &ops), -ENODEV);
	lab_assert_complete(lab);
	assert_int_equal(lab->count[LAB_SETUP_FAIL], 2);
	for (size_t i = 0; i < 2; i++) {
		const struct lab_note *n = lab_note(lab, LAB_SETUP_FAIL, i);
		assert_int_equal(n->event.failure, GD_TIMED_OUT);
		assert_string_equal(n->message, "setup was not done within 50 ms");
		assert_int_equal(n->event.gpu, n->event.slot);
	}
	assert_int_equal(lab->stats.setup_failures, 2);
	for (size_t i = 0; i < lab->count[LAB_ERROR]; i++)
		assert_int_equal(lab_note(lab, LAB_ERROR, i)->event.failure, GD_NO_WORKER);
	assert_true(lab->count[LAB_ERROR] >= 1);
}

static int hang_in_cleanup(struct gd_worker *w, void *state)
{
	(void)state;
	if (gd_worker_slot(w) == 0)
		ignore_everything_and_spin();
	return gd_fail(w, -EIO, "slot %d keeps its memory", gd_worker_slot(w));
}

static int both_work(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	atomic_fetch_or(&lab_shared->words[0], 1u << gd_worker_slot(w));
	while (atomic_load(&lab_shared->words[0]) != 3)
		poll(NULL, 0, 1);
	return lab_echo(w, state, task);
}

static void test_a_cleanup_that_hangs_or_fails_is_told(void **state)
{
	static const struct gd_worker_ops ops = {.process = both_work, .cleanup = hang_in_cleanup};
	struct lab *lab = *state;
	lab->options.cleanup_timeout_ms = 100;
	assert_int_equal(lab_run(lab, &ops), 0);
	lab_assert_complete(lab);
	assert_int_equal(lab->count[LAB_SUCCESS], 10);
	assert_int_equal(lab->count[LAB_CLEANUP_FAIL], 2);
	for (size_t i = 0; i < 2; i++) {
		const struct lab_note *n = lab_note(lab, LAB_CLEANUP_FAIL, i);
		if (n->event.slot == 0) {
			assert_int_equal(n->event.failure, GD_TIMED_OUT);
			assert_string_equal(n->message, "cleanup was not done within 100 ms");
		} else {
			assert_int_equal(n->event.failure, GD_FAILED);
			assert_int_equal(n->event.code, -EIO);
			assert_string_equal(n->message, "slot 1 keeps its memory");
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_20_ms_end_a_task_that_ignores_signals, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(
			test_a_task_that_looks_keeps_its_worker_and_its_state, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(test_a_task_that_timed_out_is_tried_again, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(test_the_clock_has_milliseconds, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(test_tasks_within_their_time_are_left_alone, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(
			test_a_callback_that_blocks_holds_back_no_timeout, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(
			test_waiting_for_a_slow_callback_is_not_the_tasks_time, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(test_a_setup_that_hangs_takes_its_slot_out, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(test_setups_that_all_hang_end_the_run, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(test_a_cleanup_that_hangs_or_fails_is_told, lab_setup, lab_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
