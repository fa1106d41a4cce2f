/* SPDX-License-Identifier: MIT */
/* gd_pool_poll() that returns on a signal, and that waits although there is no task. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "recorder.h"
#include "support/board.h"
#include "support/process.h"
#include "support/wait.h"

static const struct gd_worker_ops echo = {.size = sizeof(struct gd_worker_ops), .process = recorder_echo};

static int wait_for_go(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	if (!board_pass_gate(0))
		return -ETIMEDOUT;
	return recorder_echo(w, state, task);
}

static const struct gd_worker_ops gated = {.size = sizeof(struct gd_worker_ops), .process = wait_for_go};

static void note_signal(int signal)
{
	(void)signal;
	atomic_fetch_add(&board->notes[0], 1);
}

/* A child that sends SIGUSR1 as soon as this process sleeps, and then may let a worker continue. */
static pid_t signal_when_asleep(bool then_go)
{
	struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART};
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	pid_t parent = getpid();
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	process_await_asleep(parent);
	kill(parent, SIGUSR1);
	while (then_go && atomic_load(&board->notes[0]) == 0)
		usleep(1000);
	if (then_go)
		board_open_gate(0);
	_exit(0);
}

static struct gd_pool *open_ready(struct recorder *rec, const struct gd_worker_ops *ops)
{
	struct gd_pool *p = recorder_open(rec, ops);
	assert_int_equal(gd_pool_wait_ready(p, WAIT_MS), 2);
	return p;
}

static void test_poll_returns_for_a_signal_if_asked_to(void **state)
{
	struct recorder *rec = *state;
	rec->calls.on_task_start = NULL;
	struct gd_pool *p = open_ready(rec, &gated);
	assert_int_equal(gd_pool_submit(p, "x", 1, NULL, NULL, NULL), 0);
	pid_t child = signal_when_asleep(false);
	assert_int_equal(gd_pool_poll(p, WAIT_MS, GD_POLL_SIGNALS), -EINTR);
	assert_int_equal(atomic_load(&board->notes[0]), 1);
	assert_int_equal(process_exit_code(child), 0);
	board_open_gate(0);
	assert_int_equal(gd_pool_poll(p, WAIT_MS, GD_POLL_SIGNALS), 1);
	assert_int_equal(gd_pool_close(p, NULL, 0, NULL), 0);
}

static void test_signals_do_not_end_a_wait(void **state)
{
	struct recorder *rec = *state;
	rec->calls.on_task_start = NULL;
	struct gd_pool *p = open_ready(rec, &gated);
	for (int i = 0; i < 2; i++) {
		atomic_store(&board->notes[0], 0);
		assert_int_equal(gd_pool_submit(p, "x", 1, NULL, NULL, NULL), 0);
		pid_t child = signal_when_asleep(true);
		int r = i == 0 ? gd_pool_poll(p, WAIT_MS, 0) : gd_pool_wait(p, WAIT_MS);
		assert_int_equal(r, i == 0 ? 1 : 0);
		assert_int_equal(atomic_load(&board->notes[0]), 1);
		assert_int_equal(process_exit_code(child), 0);
	}
	assert_int_equal(gd_pool_close(p, NULL, 0, NULL), 0);
}

static void test_idle_poll_returns_for_a_signal_an_interrupt_and_the_time(void **state)
{
	struct gd_pool *p = open_ready(*state, &echo);
	assert_int_equal(gd_pool_poll(p, WAIT_MS, 0), 0); /* does not wait */
	pid_t child = signal_when_asleep(false);
	assert_int_equal(gd_pool_poll(p, WAIT_MS, GD_POLL_IDLE | GD_POLL_SIGNALS), -EINTR);
	assert_int_equal(process_exit_code(child), 0);
	gd_pool_interrupt(p);
	assert_int_equal(gd_pool_poll(p, -1, GD_POLL_IDLE), 0);
	uint64_t start_ns = clock_now_ns();
	assert_int_equal(gd_pool_poll(p, 30, GD_POLL_IDLE), 0);
	assert_true(clock_now_ns() - start_ns >= 30 * NS_PER_MS);
	assert_int_equal(gd_pool_poll(p, 0, 4), -EINVAL);
	gd_pool_stop(p);
	assert_int_equal(gd_pool_poll(p, -1, GD_POLL_IDLE), -ECANCELED);
	assert_int_equal(gd_pool_close(p, NULL, 0, NULL), 0);
}

/* One thread submits when the other one sleeps. */
static void *submit_when_asleep(void *context)
{
	struct gd_pool *p = context;
	process_await_asleep(getpid());
	return (void *)(intptr_t)gd_pool_submit(p, "x", 1, NULL, NULL, NULL);
}

static void test_task_of_another_thread_ends_an_idle_poll(void **state)
{
	struct recorder *rec = *state;
	rec->calls.on_task_start = NULL;
	struct gd_pool *p = open_ready(rec, &echo);
	pthread_t thread;
	void *submitted;
	assert_int_equal(pthread_create(&thread, NULL, submit_when_asleep, p), 0);
	assert_int_equal(gd_pool_poll(p, -1, GD_POLL_IDLE), 1);
	assert_int_equal(pthread_join(thread, &submitted), 0);
	assert_null(submitted);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 1);
	assert_int_equal(gd_pool_close(p, NULL, 0, NULL), 0);
}

static void test_idle_poll_ends_when_no_worker_is_left(void **state)
{
	struct recorder *rec = *state;
	struct gd_worker_ops ops = echo;
	ops.setup = recorder_no_setup;
	struct gd_pool *p = recorder_open(rec, &ops);
	while (rec->count[CALLBACK_SETUP_FAIL] < 2)
		assert_true(gd_pool_poll(p, WAIT_MS, GD_POLL_IDLE) > 0);
	assert_int_equal(gd_pool_poll(p, -1, GD_POLL_IDLE), -ENODEV);
	assert_int_equal(gd_pool_wait_ready(p, -1), 0);
	assert_int_equal(gd_pool_wait(p, -1), -ENODEV);
	assert_int_equal(gd_pool_close(p, NULL, 0, NULL), 0);
}

static struct gd_pool *pool_in_callback;

static int wait_inside(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)event;
	if (note->kind != CALLBACK_SUCCESS)
		return 0;
	rec->extra = gd_pool_wait(pool_in_callback, 0) == -EDEADLK &&
				     gd_pool_wait_ready(pool_in_callback, 0) == -EDEADLK &&
				     gd_pool_poll(pool_in_callback, 0, GD_POLL_IDLE) == -EDEADLK
			     ? rec
			     : NULL;
	return 1; /* stop */
}

static void test_waiting_in_a_callback_is_refused_and_a_callback_can_stop_a_wait(void **state)
{
	struct recorder *rec = *state;
	rec->on_note = wait_inside;
	struct gd_pool *p = pool_in_callback = open_ready(rec, &echo);
	assert_int_equal(gd_pool_submit(p, "x", 1, NULL, NULL, NULL), 0);
	int r = gd_pool_wait(p, WAIT_MS);
	assert_true(r == 0 || r == -ECANCELED);
	assert_ptr_equal(rec->extra, rec);
	assert_int_equal(gd_pool_wait(p, WAIT_MS), -ECANCELED);
	assert_int_equal(gd_pool_close(p, NULL, 0, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		recorder_test(test_poll_returns_for_a_signal_if_asked_to),
		recorder_test(test_signals_do_not_end_a_wait),
		recorder_test(test_idle_poll_returns_for_a_signal_an_interrupt_and_the_time),
		recorder_test(test_task_of_another_thread_ends_an_idle_poll),
		recorder_test(test_idle_poll_ends_when_no_worker_is_left),
		recorder_test(test_waiting_in_a_callback_is_refused_and_a_callback_can_stop_a_wait),
	};
	return cmocka_run_group_tests_name("pool_poll_flags", tests, NULL, NULL);
}
