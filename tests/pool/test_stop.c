/* SPDX-License-Identifier: MIT */
/* Ending a run early: once, twice, from any thread or callback. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>

#include "base/clock.h"
#include "pool/dispatcher_private.h"
#include "recorder.h"
#include "support/board.h"
#include "support/wait.h"

/* The first task of each of the two workers waits at gate 0; all others would be quick. */
static int first_two_wait(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	if (atomic_fetch_add(&board->words[0], 1) < 2)
		board_pass_gate(0);
	return recorder_echo(w, state, task);
}

static const struct gd_worker_ops waiters = {.size = sizeof(struct gd_worker_ops), .process = first_two_wait};

/* Two tasks are in the workers, 20 in the queue, and the generator waits with one more. */
static void make_full(struct recorder *rec)
{
	rec->options.queue_size = 20;
	rec->tasks = 1000;
}

/* Two ran and were finished; waiting tasks were called back as cancelled; no more were accepted. */
static void assert_stopped_once(const struct recorder *rec)
{
	recorder_assert_complete(rec);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 2);
	assert_int_equal(rec->stats.completed, 2);
	assert_true(rec->stats.submitted < 100);
	assert_int_equal(rec->count[CALLBACK_CANCELLED], rec->stats.submitted - 2);
	for (size_t i = 0; i < rec->count[CALLBACK_CANCELLED]; i++) {
		const struct run_note *n = recorder_note(rec, CALLBACK_CANCELLED, i);
		assert_int_equal(n->event.failure, GD_FAILURE_CANCELLED);
		assert_int_equal(n->event.code, -ECANCELED);
		assert_int_equal(n->event.slot, -1);
		assert_int_equal(n->event.gpu, -1);
		assert_int_equal(n->event.attempt, 0);
		assert_true(n->event.started_ns == 0);
		assert_true(n->event.queued_ns != 0 && n->event.ended_ns >= n->event.queued_ns);
		assert_int_equal(n->task, n->event.id);
		check_contains(n->message, "cancelled before it began");
	}
}

/* Running tasks are released at the first callback of a cancellation. */
static void let_go_at_first_error(const struct recorder *rec, const struct run_note *note)
{
	if (note->kind == CALLBACK_CANCELLED && rec->count[CALLBACK_CANCELLED] == 1) {
		board_open_gate(0);
		board_open_gate(0);
	}
}

/* Stops as soon as two tasks run, and releases them at the first callback of a cancellation. */
static int stop_at_second_start(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)event;
	if (note->kind == CALLBACK_START && rec->count[CALLBACK_START] == 2)
		gd_dispatcher_stop(rec->dispatcher);
	let_go_at_first_error(rec, note);
	return 0;
}

static void test_one_stop_finishes_what_runs_and_cancels_what_waits(void **state)
{
	struct recorder *rec = *state;
	make_full(rec);
	rec->on_note = stop_at_second_start;
	assert_int_equal(recorder_run(rec, &waiters), -ECANCELED);
	assert_string_equal(rec->err.message, "stopped by gd_dispatcher_stop()");
	assert_stopped_once(rec);
}

static int answer_nonzero(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)event;
	let_go_at_first_error(rec, note);
	/* Repeated stops have the same effect. */
	return note->kind == CALLBACK_START && rec->count[CALLBACK_START] < 2 ? 0 : -1;
}

static void test_a_callback_can_ask_to_stop(void **state)
{
	struct recorder *rec = *state;
	make_full(rec);
	rec->on_note = answer_nonzero;
	assert_int_equal(recorder_run(rec, &waiters), -ECANCELED);
	assert_string_equal(rec->err.message, "stopped by a callback");
	assert_stopped_once(rec);
}

static struct gd_dispatcher *to_stop;

static void stop_from_handler(int sig)
{
	(void)sig;
	gd_dispatcher_stop(to_stop);
}

static int raise_at_second_start(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)event;
	if (note->kind == CALLBACK_START && rec->count[CALLBACK_START] == 2) {
		/* The signal comes while the run waits for an event. */
		struct itimerval soon = {.it_value = {.tv_usec = 20000}};
		to_stop = rec->dispatcher;
		setitimer(ITIMER_REAL, &soon, NULL);
	}
	let_go_at_first_error(rec, note);
	return 0;
}

static void test_a_signal_handler_can_stop(void **state)
{
	struct recorder *rec = *state;
	struct sigaction action = {.sa_handler = stop_from_handler};
	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	make_full(rec);
	rec->on_note = raise_at_second_start;
	assert_int_equal(recorder_run(rec, &waiters), -ECANCELED);
	assert_stopped_once(rec);
}

static void *stop_when_told(void *argument)
{
	struct recorder *rec = argument;
	if (board_pass_gate(1))
		gd_dispatcher_stop(rec->dispatcher);
	return NULL;
}

static int tell_the_thread(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)event;
	if (note->kind == CALLBACK_START && rec->count[CALLBACK_START] == 2)
		board_open_gate(1);
	let_go_at_first_error(rec, note);
	return 0;
}

static void test_another_thread_can_stop(void **state)
{
	struct recorder *rec = *state;
	pthread_t thread;
	make_full(rec);
	rec->options.allow_threads = true; /* the hooks take no lock */
	rec->options.worker = &waiters;
	rec->on_note = tell_the_thread;
	assert_int_equal(gd_dispatcher_create(&rec->options, &rec->dispatcher, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, stop_when_told, rec), 0);
	assert_int_equal(recorder_run(rec, &waiters), -ECANCELED);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_stopped_once(rec);
}

/* ---- Twice -------------------------------------------------------------- */

/* One worker checks for cancellation, the other does not. */
static int look_or_not(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)task;
	(void)state;
	if (gd_worker_slot(w) == 0) {
		while (!gd_worker_cancelled(w, 0))
			poll(NULL, 0, 1);
		return gd_worker_fail(w, -ECANCELED, "as you wish");
	}
	for (volatile unsigned spin = 0;; spin++)
		;
}

static int stop_twice(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)event;
	if (note->kind == CALLBACK_START && rec->count[CALLBACK_START] == 2) {
		gd_dispatcher_stop(rec->dispatcher);
		gd_dispatcher_stop(rec->dispatcher);
	}
	return 0;
}

/* Slot 0 checked in time. */
static bool gave_up(const struct recorder *rec, int result)
{
	assert_int_equal(result, -ECANCELED);
	for (size_t i = 0; i < rec->count[CALLBACK_CANCELLED]; i++) {
		const struct run_note *n = recorder_note(rec, CALLBACK_CANCELLED, i);
		if (n->event.slot == 0 && strcmp(n->message, "as you wish") == 0)
			return true;
	}
	return false;
}

static void test_the_second_stop_ends_what_runs(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = look_or_not};
	struct recorder *rec = *state;
	make_full(rec);
	rec->options.grace_ms = 200;
	rec->on_note = stop_twice;
	recorder_run_until(rec, &ops, gave_up);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 0);
	size_t looked = 0, killed = 0;
	for (size_t i = 0; i < rec->count[CALLBACK_CANCELLED]; i++) {
		const struct run_note *n = recorder_note(rec, CALLBACK_CANCELLED, i);
		if (n->event.slot == 0) {
			looked++;
			assert_string_equal(n->message, "as you wish");
		} else if (n->event.slot == 1) {
			killed++;
			assert_int_equal(n->event.failure, GD_FAILURE_CANCELLED);
			assert_true(n->event.ended_ns - n->event.started_ns >= 150000000);
		} else {
			assert_int_equal(n->event.failure, GD_FAILURE_CANCELLED);
		}
	}
	assert_int_equal(looked, 1);
	assert_int_equal(killed, 1);
	assert_int_equal(rec->stats.restarts, 0);
}

/* ---- Before, after, and while there is nothing to stop ------------------ */

static void test_a_stop_before_the_run_stops_it_at_once(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = recorder_echo};
	struct recorder *rec = *state;
	for (int is_inline = 0; is_inline < 2; is_inline++) {
		rec->run.inline_generator = is_inline;
		rec->options.worker = &ops;
		if (!rec->dispatcher)
			assert_int_equal(gd_dispatcher_create(&rec->options, &rec->dispatcher, NULL), 0);
		gd_dispatcher_stop(rec->dispatcher);
		recorder_restart(rec);
		assert_int_equal(recorder_run(rec, &ops), -ECANCELED);
		assert_int_equal(rec->given, 0);
		assert_int_equal(rec->count[CALLBACK_EXIT], 1);
		/* The stop ends with the run. */
		recorder_restart(rec);
		assert_int_equal(recorder_run(rec, &ops), 0);
		recorder_assert_complete(rec);
		assert_int_equal(rec->count[CALLBACK_SUCCESS], 10);
	}
}

/* Yields three tasks, then waits forever, like a generator that reads a socket. */
static int generator_that_waits(void *context, struct gd_feed *feed)
{
	struct recorder *rec = context;
	if (rec->given < 3) {
		uint64_t n = rec->given++;
		int r = gd_feed_emit(feed, &n, sizeof(n), NULL, NULL);
		return r < 0 ? r : 1;
	}
	struct pollfd p = {.fd = gd_dispatcher_stop_fd(rec->dispatcher), .events = POLLIN};
	atomic_store(&board->go, 1);
	rec->extra = poll(&p, 1, WAIT_MS) == 1 ? rec : NULL;
	return 0;
}

static int stop_at_third_success(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)event;
	if (note->kind == CALLBACK_SUCCESS && rec->count[CALLBACK_SUCCESS] == 3) {
		board_await(&board->go, 1); /* a generator that is no longer called would not see it */
		gd_dispatcher_stop(rec->dispatcher);
	}
	return 0;
}

static void test_the_stop_fd_wakes_a_generator_that_waits(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = recorder_echo};
	struct recorder *rec = *state;
	rec->run.generator = generator_that_waits;
	rec->on_note = stop_at_third_success;
	for (int run = 0; run < 2; run++) {
		recorder_restart(rec);
		rec->extra = NULL;
		atomic_store(&board->go, 0);
		assert_int_equal(recorder_run(rec, &ops), -ECANCELED);
		assert_non_null(rec->extra);
		assert_int_equal(rec->count[CALLBACK_SUCCESS], 3);
		/* It is no longer readable for the next run. */
		struct pollfd p = {.fd = gd_dispatcher_stop_fd(rec->dispatcher), .events = POLLIN};
		assert_int_equal(poll(&p, 1, 0), 0);
	}
}

/* Wakes the running task, once it was woken itself. */
static int generator_that_lets_go(void *context, struct gd_feed *feed)
{
	struct recorder *rec = context;
	uint64_t before = rec->given;
	if (before == 3)
		board_open_gate(1);
	int r = generator_that_waits(context, feed);
	if (before == 3) {
		board_open_gate(0);
		board_open_gate(0);
	}
	return r;
}

static int stop_at_first_start(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)event;
	/* Not before the generator waits, or it would not be called again. */
	if (note->kind == CALLBACK_START && rec->count[CALLBACK_START] == 1 && board_pass_gate(1))
		gd_dispatcher_stop(rec->dispatcher);
	return 0;
}

static void test_the_stop_fd_wakes_a_generator_that_waits_while_tasks_run(void **state)
{
	struct recorder *rec = *state;
	uint64_t begin = clock_now_ns();
	rec->run.generator = generator_that_lets_go;
	rec->on_note = stop_at_first_start;
	assert_int_equal(recorder_run(rec, &waiters), -ECANCELED);
	/* It was notified; otherwise its tasks would have waited much longer. */
	assert_true(clock_now_ns() - begin < (uint64_t)WAIT_MS / 2 * 1000000);
	recorder_assert_complete(rec);
}

static void test_the_stop_fd_wakes_a_generator_that_waits_when_no_worker_is_left(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .setup = recorder_no_setup, .process = recorder_echo};
	struct recorder *rec = *state;
	rec->run.generator = generator_that_waits;
	assert_int_equal(recorder_run(rec, &ops), -ENODEV);
	/* It yielded all tasks and waited, or was told earlier that no more are needed. */
	assert_true(rec->given < 3 || rec->extra);
}

static int stop_in_setup(struct gd_worker *w, void **ret_state)
{
	(void)w;
	(void)ret_state;
	board_open_gate(1);
	board_pass_gate(0); /* longer than the test's time limit */
	return 0;
}

static void test_a_stop_does_not_wait_for_setups(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .setup = stop_in_setup, .process = recorder_echo};
	struct recorder *rec = *state;
	pthread_t thread;
	rec->options.allow_threads = true;
	rec->options.worker = &ops;
	assert_int_equal(gd_dispatcher_create(&rec->options, &rec->dispatcher, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, stop_when_told, rec), 0);
	uint64_t begin = clock_now_ns();
	assert_int_equal(recorder_run(rec, &ops), -ECANCELED);
	assert_true(clock_now_ns() - begin < (uint64_t)WAIT_MS / 2 * 1000000);
	assert_int_equal(pthread_join(thread, NULL), 0);
	recorder_assert_complete(rec);
	assert_int_equal(rec->count[CALLBACK_SETUP_FAIL], 0);
}

/* ---- At the end of a run ------------------------------------------------ */

#define RUNS_THAT_MEET_A_STOP 20000

static struct {
	struct gd_dispatcher *dispatcher;
	atomic_int ending; /* runs that are in on_exit */
	atomic_int stopped;
} meeting;

static void *stop_at_each_end(void *unused)
{
	(void)unused;
	for (int i = 1; i <= RUNS_THAT_MEET_A_STOP; i++) {
		while (atomic_load(&meeting.ending) < i)
			sched_yield();
		for (volatile int late = 0; late < i % 64; late++)
			;
		gd_dispatcher_stop(meeting.dispatcher);
		atomic_store(&meeting.stopped, i);
	}
	return NULL;
}

static void note_ending(void *context, const struct gd_stats *stats)
{
	(void)context;
	(void)stats;
	atomic_fetch_add(&meeting.ending, 1);
}

static int nothing(void *context, struct gd_feed *feed)
{
	(void)context;
	(void)feed;
	return 0;
}

static int ignore(void *context, const struct gd_event *event)
{
	(void)context;
	(void)event;
	return 0;
}

/* Such a stop, with its descriptor, belongs to the ending run or to the next one. */
static void test_a_stop_at_the_end_of_a_run_leaves_no_trace_of_its_own(void **state)
{
	(void)state;
	const struct gd_worker_ops ops = {.size = sizeof(ops), .process = recorder_echo};
	/* No worker is started: such a run ends at once. */
	const struct gd_options options = {.size = sizeof(options), .worker = &ops, .gpus = "sim:nonsense"};
	const struct gd_run run = {.size = sizeof(run), .generator = nothing, .leave_signals = 1};
	const struct gd_callbacks calls = {
		.size = sizeof(calls), .on_success = ignore, .on_error = ignore, .on_exit = note_ending};
	pthread_t thread;
	atomic_store(&meeting.ending, 0);
	assert_int_equal(gd_dispatcher_create(&options, &meeting.dispatcher, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, stop_at_each_end, NULL), 0);
	for (int i = 1; i <= RUNS_THAT_MEET_A_STOP; i++) {
		assert_true(gd_dispatcher_run(meeting.dispatcher, &run, &calls, NULL) < 0);
		while (atomic_load(&meeting.stopped) < i)
			sched_yield();
		struct pollfd fd = {.fd = gd_dispatcher_stop_fd(meeting.dispatcher), .events = POLLIN};
		assert_int_equal(poll(&fd, 1, 0), atomic_load(&meeting.dispatcher->stops) > 0);
	}
	pthread_join(thread, NULL);
	gd_dispatcher_destroy(meeting.dispatcher);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		recorder_test(test_one_stop_finishes_what_runs_and_cancels_what_waits),
		recorder_test(test_a_callback_can_ask_to_stop),
		recorder_test(test_a_signal_handler_can_stop),
		recorder_test(test_another_thread_can_stop),
		recorder_test(test_the_second_stop_ends_what_runs),
		recorder_test(test_a_stop_before_the_run_stops_it_at_once),
		recorder_test(test_the_stop_fd_wakes_a_generator_that_waits),
		recorder_test(test_the_stop_fd_wakes_a_generator_that_waits_while_tasks_run),
		recorder_test(test_the_stop_fd_wakes_a_generator_that_waits_when_no_worker_is_left),
		recorder_test(test_a_stop_does_not_wait_for_setups),
		recorder_test(test_a_stop_at_the_end_of_a_run_leaves_no_trace_of_its_own),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
