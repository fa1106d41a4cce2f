/* SPDX-License-Identifier: MIT */
/* Ending a run early: once, twice, from wherever. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "lab.h"

/* The first task of each of the two workers waits at gate 0; all others would be quick. */
static int first_two_wait(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	if (atomic_fetch_add(&lab_shared->words[0], 1) < 2)
		lab_pass(0);
	return lab_echo(w, state, task);
}

static const struct gd_worker_ops waiters = {.process = first_two_wait};

/* With two in the workers' hands, 20 in the queue, and the generator waiting with one more. */
static void make_full(struct lab *lab)
{
	lab->options.queue_size = 20;
	lab->tasks = 1000;
}

/* Two ran and were finished; what waited was called back as cancelled; no more was taken. */
static void assert_stopped_once(const struct lab *lab)
{
	lab_assert_complete(lab);
	assert_int_equal(lab->count[LAB_SUCCESS], 2);
	assert_int_equal(lab->stats.completed, 2);
	assert_true(lab->stats.submitted < 100);
	assert_int_equal(lab->count[LAB_ERROR], lab->stats.submitted - 2);
	for (size_t i = 0; i < lab->count[LAB_ERROR]; i++) {
		const struct lab_note *n = lab_note(lab, LAB_ERROR, i);
		assert_int_equal(n->event.failure, GD_CANCELLED);
		assert_int_equal(n->event.code, -ECANCELED);
		assert_int_equal(n->event.slot, -1);
		assert_int_equal(n->event.gpu, -1);
		assert_int_equal(n->event.attempt, 0);
		assert_true(n->event.started_ns == 0);
		assert_true(n->event.queued_ns != 0 && n->event.ended_ns >= n->event.queued_ns);
		assert_int_equal(n->task, n->event.id);
		lab_assert_contains(n->message, "stopped before it began");
	}
}

/* As soon as two tasks run: stop; what runs is let go when the first cancellation was called back. */
static int stop_at_second_start(struct lab *lab, const struct lab_note *note, const struct gd_event *event)
{
	(void)event;
	if (note->kind == LAB_START && lab->count[LAB_START] == 2)
		gd_stop(lab->dispatcher);
	if (note->kind == LAB_ERROR && lab->count[LAB_ERROR] == 1) {
		lab_open(0);
		lab_open(0);
	}
	return 0;
}

static void test_one_stop_finishes_what_runs_and_cancels_what_waits(void **state)
{
	struct lab *lab = *state;
	make_full(lab);
	lab->on_note = stop_at_second_start;
	assert_int_equal(lab_run(lab, &waiters), -ECANCELED);
	assert_string_equal(lab->err.message, "stopped by gd_stop()");
	assert_stopped_once(lab);
}

static int answer_nonzero(struct lab *lab, const struct lab_note *note, const struct gd_event *event)
{
	(void)event;
	if (note->kind == LAB_ERROR && lab->count[LAB_ERROR] == 1) {
		lab_open(0);
		lab_open(0);
	}
	/* Again and again, which is not harder. */
	return note->kind == LAB_START && lab->count[LAB_START] < 2 ? 0 : -1;
}

static void test_a_callback_can_ask_to_stop(void **state)
{
	struct lab *lab = *state;
	make_full(lab);
	lab->on_note = answer_nonzero;
	assert_int_equal(lab_run(lab, &waiters), -ECANCELED);
	assert_string_equal(lab->err.message, "stopped by a callback");
	assert_stopped_once(lab);
}

static struct gd_dispatcher *to_stop;

static void stop_from_handler(int sig)
{
	(void)sig;
	gd_stop(to_stop);
}

static int raise_at_second_start(struct lab *lab, const struct lab_note *note, const struct gd_event *event)
{
	(void)event;
	if (note->kind == LAB_START && lab->count[LAB_START] == 2) {
		/* While the run waits for something else to happen. */
		struct itimerval soon = {.it_value = {.tv_usec = 20000}};
		to_stop = lab->dispatcher;
		setitimer(ITIMER_REAL, &soon, NULL);
	}
	if (note->kind == LAB_ERROR && lab->count[LAB_ERROR] == 1) {
		lab_open(0);
		lab_open(0);
	}
	return 0;
}

static void test_a_signal_handler_can_stop(void **state)
{
	struct lab *lab = *state;
	struct sigaction action = {.sa_handler = stop_from_handler};
	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	make_full(lab);
	lab->on_note = raise_at_second_start;
	assert_int_equal(lab_run(lab, &waiters), -ECANCELED);
	assert_stopped_once(lab);
}

static void *stop_when_told(void *argument)
{
	struct lab *lab = argument;
	if (lab_pass(1))
		gd_stop(lab->dispatcher);
	return NULL;
}

static int tell_the_thread(struct lab *lab, const struct lab_note *note, const struct gd_event *event)
{
	(void)event;
	if (note->kind == LAB_START && lab->count[LAB_START] == 2)
		lab_open(1);
	if (note->kind == LAB_ERROR && lab->count[LAB_ERROR] == 1) {
		lab_open(0);
		lab_open(0);
	}
	return 0;
}

static void test_another_thread_can_stop(void **state)
{
	struct lab *lab = *state;
	pthread_t thread;
	make_full(lab);
	lab->options.allow_threads = true; /* the hooks take no lock */
	lab->options.worker = &waiters;
	lab->on_note = tell_the_thread;
	assert_int_equal(gd_create(&lab->options, &lab->dispatcher, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, stop_when_told, lab), 0);
	assert_int_equal(lab_run(lab, &waiters), -ECANCELED);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_stopped_once(lab);
}

/* ---- Twice -------------------------------------------------------------- */

/* One worker looks, the other one does not. */
static int look_or_not(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)task;
	(void)state;
	if (gd_worker_slot(w) == 0) {
		while (!gd_cancelled(w))
			poll(NULL, 0, 1);
		return gd_fail(w, -ECANCELED, "as you wish");
	}
	for (volatile unsigned spin = 0;; spin++)
		;
}

static int stop_twice(struct lab *lab, const struct lab_note *note, const struct gd_event *event)
{
	(void)event;
	if (note->kind == LAB_START && lab->count[LAB_START] == 2) {
		gd_stop(lab->dispatcher);
		gd_stop(lab->dispatcher);
	}
	return 0;
}

static void test_the_second_stop_ends_what_runs(void **state)
{
	static const struct gd_worker_ops ops = {.process = look_or_not};
	struct lab *lab = *state;
	make_full(lab);
	lab->options.grace_ms = 200;
	lab->on_note = stop_twice;
	assert_int_equal(lab_run(lab, &ops), -ECANCELED);
	lab_assert_complete(lab);
	assert_int_equal(lab->count[LAB_SUCCESS], 0);
	size_t looked = 0, killed = 0;
	for (size_t i = 0; i < lab->count[LAB_ERROR]; i++) {
		const struct lab_note *n = lab_note(lab, LAB_ERROR, i);
		if (n->event.slot == 0) {
			looked++;
			assert_string_equal(n->message, "as you wish");
		} else if (n->event.slot == 1) {
			killed++;
			assert_int_equal(n->event.failure, GD_CANCELLED);
			assert_true(n->event.ended_ns - n->event.started_ns >= 150000000);
		} else {
			assert_int_equal(n->event.failure, GD_CANCELLED);
		}
	}
	assert_int_equal(looked, 1);
	assert_int_equal(killed, 1);
	assert_int_equal(lab->stats.restarts, 0);
}

/* ---- Before, after, and while there is nothing to stop ------------------ */

static void test_a_stop_before_the_run_stops_it_at_once(void **state)
{
	static const struct gd_worker_ops ops = {.process = lab_echo};
	struct lab *lab = *state;
	for (int is_inline = 0; is_inline < 2; is_inline++) {
		lab->source.inline_generator = is_inline;
		lab->options.worker = &ops;
		if (!lab->dispatcher)
			assert_int_equal(gd_create(&lab->options, &lab->dispatcher, NULL), 0);
		gd_stop(lab->dispatcher);
		lab->given = lab->num_notes = 0;
		memset(lab->count, 0, sizeof(lab->count));
		assert_int_equal(lab_run(lab, &ops), -ECANCELED);
		assert_int_equal(lab->given, 0);
		assert_int_equal(lab->count[LAB_EXIT], 1);
		/* And that is over with it. */
		lab->num_notes = 0;
		memset(lab->count, 0, sizeof(lab->count));
		assert_int_equal(lab_run(lab, &ops), 0);
		lab_assert_complete(lab);
		assert_int_equal(lab->count[LAB_SUCCESS], 10);
	}
}

/* Gives three tasks, then waits for what will not come, as one that reads a socket would. */
static int generator_that_waits(void *context, struct gd_feed *feed)
{
	struct lab *lab = context;
	if (lab->given < 3) {
		uint64_t n = lab->given++;
		int r = gd_emit(feed, &n, sizeof(n), NULL);
		return r < 0 ? r : 1;
	}
	struct pollfd p = {.fd = gd_stop_fd(lab->dispatcher), .events = POLLIN};
	lab->extra = poll(&p, 1, LAB_WAIT_MS) == 1 ? lab : NULL;
	return 0;
}

static int stop_at_third_success(struct lab *lab, const struct lab_note *note, const struct gd_event *event)
{
	(void)event;
	if (note->kind == LAB_SUCCESS && lab->count[LAB_SUCCESS] == 3)
		gd_stop(lab->dispatcher);
	return 0;
}

static void test_the_stop_fd_wakes_a_generator_that_waits(void **state)
{
	static const struct gd_worker_ops ops = {.process = lab_echo};
	struct lab *lab = *state;
	lab->source.generator = generator_that_waits;
	lab->on_note = stop_at_third_success;
	for (int run = 0; run < 2; run++) {
		lab->given = lab->num_notes = 0;
		memset(lab->count, 0, sizeof(lab->count));
		lab->extra = NULL;
		assert_int_equal(lab_run(lab, &ops), -ECANCELED);
		assert_non_null(lab->extra);
		assert_int_equal(lab->count[LAB_SUCCESS], 3);
		/* For the next run it is not readable any more. */
		struct pollfd p = {.fd = gd_stop_fd(lab->dispatcher), .events = POLLIN};
		assert_int_equal(poll(&p, 1, 0), 0);
	}
}

/* Wakes the task that runs, once it was woken itself. */
static int generator_that_lets_go(void *context, struct gd_feed *feed)
{
	struct lab *lab = context;
	uint64_t before = lab->given;
	if (before == 3)
		lab_open(1);
	int r = generator_that_waits(context, feed);
	if (before == 3) {
		lab_open(0);
		lab_open(0);
	}
	return r;
}

static int stop_at_first_start(struct lab *lab, const struct lab_note *note, const struct gd_event *event)
{
	(void)event;
	/* Not before the generator waits, or it would not be asked any more. */
	if (note->kind == LAB_START && lab->count[LAB_START] == 1 && lab_pass(1))
		gd_stop(lab->dispatcher);
	return 0;
}

static void test_the_stop_fd_wakes_it_while_tasks_run(void **state)
{
	struct lab *lab = *state;
	uint64_t begin = lab_now();
	lab->source.generator = generator_that_lets_go;
	lab->on_note = stop_at_first_start;
	assert_int_equal(lab_run(lab, &waiters), -ECANCELED);
	/* It was told, or its tasks would have waited much longer. */
	assert_true(lab_now() - begin < (uint64_t)LAB_WAIT_MS / 2 * 1000000);
	lab_assert_complete(lab);
}

static int no_setup(struct gd_worker *w, void **ret_state)
{
	(void)ret_state;
	return gd_fail(w, -ENOENT, "no model");
}

static void test_the_stop_fd_wakes_it_when_no_worker_is_left(void **state)
{
	static const struct gd_worker_ops ops = {.setup = no_setup, .process = lab_echo};
	struct lab *lab = *state;
	lab->source.generator = generator_that_waits;
	assert_int_equal(lab_run(lab, &ops), -ENODEV);
	/* It gave what it had and waited, or was told before that no more is needed. */
	assert_true(lab->given < 3 || lab->extra);
}

static int stop_in_setup(struct gd_worker *w, void **ret_state)
{
	(void)w;
	(void)ret_state;
	lab_open(1);
	lab_pass(0); /* longer than the test has time */
	return 0;
}

static void test_a_stop_does_not_wait_for_setups(void **state)
{
	static const struct gd_worker_ops ops = {.setup = stop_in_setup, .process = lab_echo};
	struct lab *lab = *state;
	pthread_t thread;
	lab->options.allow_threads = true;
	lab->options.worker = &ops;
	assert_int_equal(gd_create(&lab->options, &lab->dispatcher, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, stop_when_told, lab), 0);
	uint64_t begin = lab_now();
	assert_int_equal(lab_run(lab, &ops), -ECANCELED);
	assert_true(lab_now() - begin < (uint64_t)LAB_WAIT_MS / 2 * 1000000);
	assert_int_equal(pthread_join(thread, NULL), 0);
	lab_assert_complete(lab);
	assert_int_equal(lab->count[LAB_SETUP_FAIL], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_one_stop_finishes_what_runs_and_cancels_what_waits, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(test_a_callback_can_ask_to_stop, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(test_a_signal_handler_can_stop, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(test_another_thread_can_stop, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(test_the_second_stop_ends_what_runs, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(test_a_stop_before_the_run_stops_it_at_once, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(test_the_stop_fd_wakes_a_generator_that_waits, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(test_the_stop_fd_wakes_it_while_tasks_run, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(
			test_the_stop_fd_wakes_it_when_no_worker_is_left, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(test_a_stop_does_not_wait_for_setups, lab_setup, lab_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
