/* SPDX-License-Identifier: MIT */
/* Time limits of tasks, setup and cleanup; nothing delays them. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "recorder.h"
#include "support/board.h"
#include "support/process.h"
#include "support/wait.h"

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

/* Task 3 never ends and ignores everything. */
static int one_spins(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	if (recorder_number(task) == 3)
		ignore_everything_and_spin();
	return recorder_echo(w, state, task);
}

/* Only task 3 exceeded its limit, by less than a few seconds. */
static bool only_task_3_timed_out(const struct recorder *rec, int result)
{
	const struct run_note *n = recorder_note(rec, CALLBACK_TIMEOUT, 0);
	return result == 0 && rec->count[CALLBACK_TIMEOUT] == 1 && n->event.id == 3 &&
	       n->event.ended_ns - n->event.started_ns < 5000ull * MS;
}

static void test_timeout_of_20_ms_ends_a_task_that_ignores_signals(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = one_spins};
	struct recorder *rec = *state;
	rec->options.task_timeout_ms = 20;
	rec->options.grace_ms = 1;
	recorder_run_until(rec, &ops, only_task_3_timed_out);
	assert_int_equal(rec->count[CALLBACK_ERROR], 0);
	const struct run_note *n = recorder_note(rec, CALLBACK_TIMEOUT, 0);
	assert_int_equal(n->event.failure, GD_FAILURE_TIMED_OUT);
	assert_int_equal(n->event.code, -ETIMEDOUT);
	check_contains(n->message, "not finished within 20 ms");
	assert_true(n->event.ended_ns - n->event.started_ns >= 20 * MS);
	assert_int_equal(rec->stats.timeouts, 1);
}

/* ---- A task that polls gd_worker_cancelled() ---------------------------- */

static int load(struct gd_worker *w, void **ret_state)
{
	(void)w;
	atomic_fetch_add(&board->words[0], 1);
	*ret_state = calloc(1, sizeof(uint64_t));
	return 0;
}

static int look_and_leave(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	uint64_t *count = state;
	++*count;
	if (recorder_number(task) % 4 == 1) {
		while (!gd_worker_cancelled(w, 0))
			poll(NULL, 0, 1);
		return gd_worker_fail(w, -ECANCELED, "gave up");
	}
	return gd_worker_result(w, count, sizeof(*count));
}

static int drop(struct gd_worker *w, void *state)
{
	(void)w;
	free(state);
	return 0;
}

static bool three_timed_out(const struct recorder *rec, int result)
{
	return result == 0 && rec->count[CALLBACK_TIMEOUT] == 3;
}

static void test_task_that_obeys_its_timeout_keeps_its_worker_and_state(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .setup = load, .process = look_and_leave, .cleanup = drop};
	struct recorder *rec = *state;
	rec->options.gpus = "sim:1";
	rec->options.task_timeout_ms = 30;
	rec->options.grace_ms = WAIT_MS;
	rec->tasks = 12;
	recorder_run_until(rec, &ops, three_timed_out);
	assert_int_equal(rec->stats.restarts, 0);
	assert_int_equal(board->words[0], 1);
	uint64_t most = 0;
	for (size_t i = 0; i < rec->count[CALLBACK_SUCCESS]; i++)
		if (recorder_note(rec, CALLBACK_SUCCESS, i)->result > most)
			most = recorder_note(rec, CALLBACK_SUCCESS, i)->result;
	assert_int_equal(most, 12);
	for (size_t i = 0; i < rec->count[CALLBACK_TIMEOUT]; i++)
		assert_string_equal(recorder_note(rec, CALLBACK_TIMEOUT, i)->message, "not finished within 30 ms");
}

static int spin_once(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	if (gd_worker_attempt(w, 0) == 1 && recorder_number(task) == 3)
		ignore_everything_and_spin();
	return recorder_echo(w, state, task);
}

static void test_a_task_that_timed_out_is_tried_again(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = spin_once};
	struct recorder *rec = *state;
	rec->options.task_timeout_ms = 100;
	rec->options.grace_ms = 1;
	rec->options.retries = 3;
	recorder_run_until(rec, &ops, recorder_all_succeeded);
	assert_true(rec->stats.retries >= 1);
	assert_int_equal(rec->stats.timeouts, 0);
}

/* ---- Precision ---------------------------------------------------------- */

static int wait_as_told(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	uint64_t begin = clock_now_ns();
	while (!gd_worker_cancelled(w, 0) && clock_now_ns() - begin < WAIT_MS * (uint64_t)MS)
		;
	return recorder_echo(w, state, task);
}

/* All of them timed out, none before its limit, and most of them soon after it. */
static bool timed_out_in_time(const struct recorder *rec, int result)
{
	uint64_t limit_ns = (uint64_t)rec->options.task_timeout_ms * MS, last_end = 0;
	int in_time = 0;
	assert_int_equal(result, 0);
	assert_int_equal(rec->count[CALLBACK_TIMEOUT], 5);
	for (size_t i = 0; i < 5; i++) {
		const struct gd_event *e = &recorder_note(rec, CALLBACK_TIMEOUT, i)->event;
		/* Its time starts with its turn, whether its worker has noticed or not. */
		uint64_t turn = e->queued_ns > last_end ? e->queued_ns : last_end;
		/* Allow 10 us for the resolution of the two clocks. */
		assert_true(e->ended_ns - turn + MS / 100 >= limit_ns);
		in_time += e->ended_ns - e->started_ns < limit_ns * 2 + 100 * MS;
		last_end = e->ended_ns;
	}
	return in_time >= 3;
}

static void test_timeouts_have_millisecond_resolution(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = wait_as_told};
	static const int64_t limits[] = {2, 15, 60};
	struct recorder *rec = *state;
	rec->options.gpus = "sim:1";
	rec->options.grace_ms = WAIT_MS;
	rec->tasks = 5;
	for (int i = 0; i < 3; i++) {
		rec->options.task_timeout_ms = limits[i];
		recorder_run_until(rec, &ops, timed_out_in_time);
		gd_dispatcher_destroy(rec->dispatcher);
		rec->dispatcher = NULL;
	}
}

static int last_ones_slow(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	if (recorder_number(task) % 10 == 9)
		poll(NULL, 0, 5);
	return recorder_echo(w, state, task);
}

static void test_tasks_within_their_time_are_left_alone(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = last_ones_slow};
	struct recorder *rec = *state;
	rec->options.task_timeout_ms = WAIT_MS;
	rec->tasks = 1000;
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 1000);
}

/* ---- A callback that blocks --------------------------------------------- */

static int answer_or_spin(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	uint64_t n = recorder_number(task);
	if (n == 1) {
		atomic_store(&board->words[0], (uint64_t)getpid());
		board_open_gate(0);
		ignore_everything_and_spin();
	}
	if (n == 0)
		board_pass_gate(1); /* its callback must come while the other one spins */
	return gd_worker_result(w, &n, sizeof(n));
}

static int block_until_it_is_killed(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)event;
	if (note->kind == CALLBACK_START && note->event.id == 1)
		board_open_gate(1);
	/* It must be gone before the callback returns. */
	if (note->kind == CALLBACK_SUCCESS && note->event.id == 0)
		rec->extra = board_pass_gate(0) && process_await_gone((pid_t)board->words[0], WAIT_MS) ? rec : NULL;
	return 0;
}

static bool only_task_1_timed_out(const struct recorder *rec, int result)
{
	return result == 0 && rec->count[CALLBACK_TIMEOUT] == 1 && rec->extra;
}

static void test_blocking_callback_delays_no_timeout(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = answer_or_spin};
	struct recorder *rec = *state;
	rec->options.task_timeout_ms = 300;
	rec->options.grace_ms = 1;
	rec->tasks = 2;
	rec->on_note = block_until_it_is_killed;
	recorder_run_until(rec, &ops, only_task_1_timed_out);
}

/* ---- Waiting that is not the task's fault ------------------------------- */

/* Eight answers of 1 MiB, where four fit: the rest waits until these were called back. */
static int large_results(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t n)
{
	static char result[1 << 20];
	(void)state;
	(void)tasks;
	for (size_t i = 0; i < n; i++)
		gd_worker_batch_result(w, i, result, sizeof(result));
	return 0;
}

static int slow(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)event;
	if (note->kind == CALLBACK_SUCCESS)
		poll(NULL, 0, 100 * rec->pace);
	return 0;
}

static void test_waiting_for_a_slow_callback_does_not_count_as_task_time(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .process_batch = large_results, .max_batch = 8};
	struct recorder *rec = *state;
	rec->options.gpus = "sim:1";
	rec->options.task_timeout_ms = 150;
	rec->options.grace_ms = 50;
	rec->calls.on_task_start = NULL;
	rec->tasks = 16;
	rec->on_note = slow;
	rec->paced = true;
	recorder_run_until(rec, &ops, recorder_all_succeeded);
}

/* The socket of parcels holds only a few from now on. */
static int shrink_socket(struct gd_worker *w, void **ret_state)
{
	(void)w;
	*ret_state = NULL;
	int least = 1, shrunk = 0;
	for (int fd = 3; fd < 64; fd++) {
		int type = 0;
		socklen_t size = sizeof(type);
		if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET)
			shrunk += setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)) == 0;
	}
	return shrunk > 0 ? 0 : -ENOTSOCK;
}

#define PARCELS 12

/* Results of more than 2 MiB, which leave as parcels; records how long it had to wait. */
static int parcel_results(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t n)
{
	(void)state;
	(void)tasks;
	static char result[(2 << 20) + 1];
	uint64_t begin = clock_now_ns();
	for (size_t i = 0; i < n; i++)
		gd_worker_batch_result(w, i, result, sizeof(result));
	atomic_fetch_add(&board->words[0], clock_now_ns() - begin);
	return 0;
}

static int first_is_very_slow(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)event;
	if (note->kind == CALLBACK_SUCCESS && rec->count[CALLBACK_SUCCESS] == 1)
		poll(NULL, 0, 600 * rec->pace);
	return 0;
}

static bool waited_and_succeeded(const struct recorder *rec, int result)
{
	return recorder_all_succeeded(rec, result) && atomic_load(&board->words[0]) > 300 * NS_PER_MS;
}

static void test_waiting_for_a_full_socket_does_not_count_as_task_time(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops),
		.setup = shrink_socket,
		.process_batch = parcel_results,
		.max_batch = PARCELS};
	struct recorder *rec = *state;
	rec->options.gpus = "sim:1";
	rec->options.task_timeout_ms = 200;
	rec->options.grace_ms = 50;
	rec->calls.on_task_start = NULL;
	rec->tasks = PARCELS;
	rec->on_note = first_is_very_slow;
	rec->paced = true;
	recorder_run_until(rec, &ops, waited_and_succeeded);
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
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .setup = slot_0_hangs_in_setup, .process = recorder_echo};
	struct recorder *rec = *state;
	rec->options.setup_timeout_ms = 400;
	rec->paced = true;
	/* The run may end before the limit: then the worker is killed without a callback. */
	recorder_run_until(rec, &ops, recorder_all_succeeded);
}

static int hang_in_setup(struct gd_worker *w, void **ret_state)
{
	(void)w;
	(void)ret_state;
	ignore_everything_and_spin();
}

static void test_setups_that_all_hang_end_the_run(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .setup = hang_in_setup, .process = recorder_echo};
	struct recorder *rec = *state;
	rec->options.setup_timeout_ms = 50;
	rec->options.queue_size = 3;
	assert_int_equal(recorder_run(rec, &ops), -ENODEV);
	recorder_assert_complete(rec);
	assert_int_equal(rec->count[CALLBACK_SETUP_FAIL], 2);
	for (size_t i = 0; i < 2; i++) {
		const struct run_note *n = recorder_note(rec, CALLBACK_SETUP_FAIL, i);
		assert_int_equal(n->event.failure, GD_FAILURE_TIMED_OUT);
		assert_string_equal(n->message, "setup did not finish within 50 ms");
		assert_int_equal(n->event.gpu, n->event.slot);
	}
	assert_int_equal(rec->stats.setup_failures, 2);
	for (size_t i = 0; i < rec->count[CALLBACK_ERROR]; i++)
		assert_int_equal(recorder_note(rec, CALLBACK_ERROR, i)->event.failure, GD_FAILURE_NO_WORKER);
	assert_true(rec->count[CALLBACK_ERROR] >= 1);
}

static int hang_in_cleanup(struct gd_worker *w, void *state)
{
	(void)state;
	if (gd_worker_slot(w) == 0)
		ignore_everything_and_spin();
	return gd_worker_fail(w, -EIO, "slot %d keeps its memory", gd_worker_slot(w));
}

static int both_work(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	board_meet(&board->words[0], gd_worker_slot(w), 2);
	return recorder_echo(w, state, task);
}

static bool only_slot_0_timed_out(const struct recorder *rec, int result)
{
	size_t timed_out = 0;
	for (size_t i = 0; i < rec->count[CALLBACK_CLEANUP_FAIL]; i++)
		timed_out += recorder_note(rec, CALLBACK_CLEANUP_FAIL, i)->event.failure == GD_FAILURE_TIMED_OUT;
	return result == 0 && timed_out == 1;
}

static void test_a_cleanup_that_hangs_or_fails_is_reported(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .process = both_work, .cleanup = hang_in_cleanup};
	struct recorder *rec = *state;
	rec->options.cleanup_timeout_ms = 100;
	recorder_run_until(rec, &ops, only_slot_0_timed_out);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 10);
	assert_int_equal(rec->count[CALLBACK_CLEANUP_FAIL], 2);
	for (size_t i = 0; i < 2; i++) {
		const struct run_note *n = recorder_note(rec, CALLBACK_CLEANUP_FAIL, i);
		if (n->event.slot == 0) {
			assert_int_equal(n->event.failure, GD_FAILURE_TIMED_OUT);
			assert_string_equal(n->message, "cleanup did not finish within 100 ms");
		} else {
			assert_int_equal(n->event.failure, GD_FAILURE_ERROR);
			assert_int_equal(n->event.code, -EIO);
			assert_string_equal(n->message, "slot 1 keeps its memory");
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		recorder_test(test_timeout_of_20_ms_ends_a_task_that_ignores_signals),
		recorder_test(test_task_that_obeys_its_timeout_keeps_its_worker_and_state),
		recorder_test(test_a_task_that_timed_out_is_tried_again),
		recorder_test(test_timeouts_have_millisecond_resolution),
		recorder_test(test_tasks_within_their_time_are_left_alone),
		recorder_test(test_blocking_callback_delays_no_timeout),
		recorder_test(test_waiting_for_a_slow_callback_does_not_count_as_task_time),
		recorder_test(test_waiting_for_a_full_socket_does_not_count_as_task_time),
		recorder_test(test_a_setup_that_hangs_takes_its_slot_out),
		recorder_test(test_setups_that_all_hang_end_the_run),
		recorder_test(test_a_cleanup_that_hangs_or_fails_is_reported),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
