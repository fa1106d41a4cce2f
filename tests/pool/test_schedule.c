/* SPDX-License-Identifier: MIT */
/* Which task goes where and when: order, retries, one long task among short ones, slow callbacks. */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>

#include "recorder.h"
#include "support/board.h"
#include "support/process.h"
#include "support/sanitizer.h"

/* ---- Order -------------------------------------------------------------- */

static int uneven(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	/* Every seventh is slow, so that the others overtake it. */
	if (recorder_number(task) % 7 == 0)
		poll(NULL, 0, 2);
	return recorder_echo(w, state, task);
}

static void assert_in_order(const struct recorder *rec)
{
	uint64_t next = 0;
	for (size_t i = 0; i < rec->num_notes; i++)
		if (rec->notes[i].kind <= CALLBACK_TIMEOUT)
			assert_int_equal(rec->notes[i].event.id, next++);
	assert_int_equal(next, rec->stats.submitted);
}

static void test_ordered_callbacks_come_in_the_order_of_the_ids(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = uneven};
	struct recorder *rec = *state;
	rec->options.gpus = "sim:4";
	rec->options.ordered = true;
	rec->tasks = 700;
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	assert_in_order(rec);
	for (size_t i = 0; i < rec->num_notes; i++)
		if (rec->notes[i].kind == CALLBACK_SUCCESS)
			assert_int_equal(rec->notes[i].result, rec->notes[i].event.id);
}

static int fail_every_fifth_once(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	if (recorder_number(task) % 5 == 0 && gd_worker_attempt(w, 0) == 1)
		return gd_worker_fail(w, -EIO, "not yet");
	return uneven(w, state, task);
}

static void test_order_holds_with_retries(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .process = fail_every_fifth_once};
	struct recorder *rec = *state;
	rec->options.ordered = true;
	rec->options.retries = 1;
	rec->options.queue_size = 3;
	rec->tasks = 300;
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	assert_in_order(rec);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 300);
	assert_int_equal(rec->stats.retries, 60);
}

/* The first task waits until the generator is blocked, waiting for the first task's callback. */
static int first_waits(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	if (recorder_number(task) == 0)
		board_pass_gate(0);
	return recorder_echo(w, state, task);
}

static void count_given(struct recorder *rec)
{
	/* Space for queue_size, plus one in each worker. */
	if (rec->given + 1 == (uint64_t)rec->options.queue_size + 2)
		board_open_gate(0);
}

static void test_ordered_run_with_a_full_queue_holds_the_generator_back(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = first_waits};
	struct recorder *rec = *state;
	rec->options.ordered = true;
	rec->options.queue_size = 20;
	rec->tasks = 100;
	rec->on_give = count_given;
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	assert_in_order(rec);
}

/* ---- Retries ------------------------------------------------------------ */

static int fail_first_attempts(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	/* Both must be ready, or there is no other worker for the retry. */
	board_meet(&board->words[0], gd_worker_slot(w), 2);
	int attempt = gd_worker_attempt(w, 0);
	if (attempt <= (int)(recorder_number(task) % 4))
		return gd_worker_fail(w, -EAGAIN, "attempt %d", attempt);
	uint64_t slot = (uint64_t)gd_worker_slot(w);
	return gd_worker_result(w, &slot, sizeof(slot));
}

static void test_a_failed_task_is_tried_again_on_another_worker(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = fail_first_attempts};
	struct recorder *rec = *state;
	rec->options.retries = 2;
	rec->tasks = 80;
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	/* 0, 1 and 2 failures are survived, 3 are not. */
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 60);
	assert_int_equal(rec->count[CALLBACK_ERROR], 20);
	assert_int_equal(rec->stats.retries, 20 * (0 + 1 + 2 + 2));
	assert_int_equal(rec->stats.completed, 60);
	assert_int_equal(rec->stats.failed, 20);
	int last_slot[80], last_attempt[80] = {0};
	for (size_t i = 0; i < rec->num_notes - 1; i++) {
		const struct run_note *n = &rec->notes[i];
		uint64_t id = n->event.id;
		int failures = (int)(id % 4);
		if (n->kind == CALLBACK_START) {
			/* Once per attempt, and never twice in a row on the same worker. */
			assert_int_equal(n->event.attempt, last_attempt[id] + 1);
			if (last_attempt[id] > 0)
				assert_int_not_equal(n->event.slot, last_slot[id]);
			last_attempt[id] = n->event.attempt;
			last_slot[id] = n->event.slot;
			continue;
		}
		assert_int_equal(n->event.attempt, last_attempt[id]);
		assert_int_equal(n->event.slot, last_slot[id]);
		if (failures < 3) {
			assert_int_equal(n->kind, CALLBACK_SUCCESS);
			assert_int_equal(n->event.attempt, failures + 1);
		} else {
			assert_int_equal(n->kind, CALLBACK_ERROR);
			assert_int_equal(n->event.attempt, 3);
			assert_string_equal(n->message, "attempt 3");
		}
	}
}

static void test_with_one_worker_a_failed_task_is_retried_there(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = fail_first_attempts};
	struct recorder *rec = *state;
	rec->options.gpus = "sim:1";
	atomic_store(&board->words[0], 3);
	rec->options.retries = 3;
	rec->tasks = 8;
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 8);
}

/* ---- One long task among short ones ------------------------------------- */

static int one_is_long(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	if (recorder_number(task) == *(const uint64_t *)&board->words[1])
		atomic_store(&board->words[0], board_pass_gate(0) ? 1 : 2);
	return recorder_echo(w, state, task);
}

static int open_after_all_others(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)note;
	(void)event;
	if (rec->count[CALLBACK_SUCCESS] + rec->count[CALLBACK_ERROR] == rec->tasks - 1)
		board_open_gate(0);
	return 0;
}

static void test_one_long_task_delays_no_other(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = one_is_long};
	/* The first of all; one in the middle, after which many tasks were prefetched; the last. */
	static const uint64_t long_ones[] = {0, 1500, 2999};
	for (size_t i = 0; i < 3; i++) {
		struct recorder *rec = *state;
		atomic_store(&board->words[0], 0);
		atomic_store(&board->words[1], long_ones[i]);
		recorder_restart(rec);
		rec->tasks = 3000;
		rec->options.queue_size = 4000;
		rec->on_note = open_after_all_others;
		assert_int_equal(recorder_run(rec, &ops), 0);
		recorder_assert_complete(rec);
		/* It was released by the callbacks of all others, not by a timeout. */
		assert_int_equal(board->words[0], 1);
	}
}

static int long_and_failing(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	if (recorder_number(task) == 0)
		return one_is_long(w, state, task);
	/* Only while the long one runs, so that only one worker is left. */
	if (recorder_number(task) == 5 && gd_worker_attempt(w, 0) == 1)
		return gd_worker_fail(w, -EIO, "elsewhere, please");
	return recorder_echo(w, state, task);
}

static int open_after_all_but_two(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)note;
	(void)event;
	if (rec->count[CALLBACK_SUCCESS] == rec->tasks - 2)
		board_open_gate(0);
	return 0;
}

/* The task to be retried elsewhere waits for the long one; those after it do not. */
static void test_a_retry_that_waits_for_another_worker_holds_back_no_other(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = long_and_failing};
	struct recorder *rec = *state;
	rec->options.retries = 1;
	rec->options.queue_size = 8; /* so that they are not all handed out before it fails */
	rec->tasks = 200;
	rec->on_note = open_after_all_but_two;
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	assert_int_equal(board->words[0], 1);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 200);
}

/* ---- Backpressure ------------------------------------------------------- */

static int large_generator(void *context, struct gd_feed *feed)
{
	struct recorder *rec = context;
	if (rec->given == rec->tasks)
		return 0;
	char *task = gd_feed_reserve(feed, 65536, NULL, NULL);
	if (!task)
		return -ENOMEM;
	memset(task, 1, 65536);
	rec->given++;
	return 1;
}

struct measured {
	size_t early_kib;
	uint64_t most_ahead;
};

static int slow_and_measuring(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	struct measured *m = rec->extra;
	(void)event;
	if (note->kind != CALLBACK_SUCCESS)
		return 0;
	uint64_t ahead = rec->given - rec->count[CALLBACK_SUCCESS];
	if (ahead > m->most_ahead)
		m->most_ahead = ahead;
	if (rec->count[CALLBACK_SUCCESS] == 400)
		m->early_kib = process_status_kib("VmHWM");
	if (rec->count[CALLBACK_SUCCESS] % 50 == 0)
		poll(NULL, 0, 5);
	return 0;
}

#if SANITIZER_ADDRESS
/* Freed memory would be kept in quarantine, up to 256 MiB. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "quarantine_size_mb=4";
}
#endif

static void test_memory_stays_bounded_when_callbacks_are_slow(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = recorder_echo};
	struct recorder *rec = *state;
	struct measured m = {0};
	rec->run.generator = large_generator;
	rec->options.queue_size = 64;
	rec->calls.on_task_start = NULL;
	rec->tasks = 4000; /* 250 MiB in, 250 MiB out */
	rec->on_note = slow_and_measuring;
	rec->extra = &m;
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	assert_true(m.early_kib > 0);
	/* The thread sanitizer keeps several bytes of its own for each byte that is touched. */
	size_t slack_kib = (SANITIZER_THREAD ? 8 : 1) * 32 * 1024;
	assert_true(process_status_kib("VmHWM") < m.early_kib + slack_kib);
	/* One more is in the generator. */
	assert_true(m.most_ahead <= 64 + 2 + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		recorder_test(test_ordered_callbacks_come_in_the_order_of_the_ids),
		recorder_test(test_order_holds_with_retries),
		recorder_test(test_ordered_run_with_a_full_queue_holds_the_generator_back),
		recorder_test(test_a_failed_task_is_tried_again_on_another_worker),
		recorder_test(test_with_one_worker_a_failed_task_is_retried_there),
		recorder_test(test_one_long_task_delays_no_other),
		recorder_test(test_a_retry_that_waits_for_another_worker_holds_back_no_other),
		recorder_test(test_memory_stays_bounded_when_callbacks_are_slow),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
