/* SPDX-License-Identifier: MIT */
/* process_batch: several tasks at once, answered in any order or not at all. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "recorder.h"
#include "support/board.h"

/* Notes the largest batch; holds the first one back until the queue is full, so that the next is large. */
static void look_at_size(size_t n)
{
	uint64_t most = atomic_load(&board->words[0]);
	if (n > most)
		atomic_store(&board->words[0], n);
	if (atomic_fetch_add(&board->words[1], 1) == 0)
		board_pass_gate(0);
}

static void open_when_full(struct recorder *rec)
{
	if (rec->given + 1 == rec->tasks)
		board_open_gate(0);
}

static uint64_t answer_to(uint64_t n)
{
	return n * 3 + 1;
}

/* Backwards, from the last to the first. */
static int backwards(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t n)
{
	(void)state;
	look_at_size(n);
	for (size_t i = n; i-- > 0;) {
		uint64_t number = recorder_number(&tasks[i]);
		if (gd_worker_task_id(w, i) != number || gd_worker_attempt(w, i) != 1)
			return gd_worker_fail(w, -EPROTO, "task %zu of the batch is another one", i);
		uint64_t answer = answer_to(number);
		int r = gd_worker_batch_result(w, i, &answer, sizeof(answer));
		if (r < 0)
			return r;
	}
	return gd_worker_task_id(w, n) == UINT64_MAX ? 0 : -EPROTO;
}

static void test_answers_in_any_order_find_their_tasks(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process_batch = backwards};
	struct recorder *rec = *state;
	rec->options.gpus = "sim:1";
	rec->tasks = 200;
	rec->on_give = open_when_full;
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 200);
	for (size_t i = 0; i < 200; i++) {
		const struct run_note *n = recorder_note(rec, CALLBACK_SUCCESS, i);
		assert_int_equal(n->result, answer_to(n->event.id));
	}
	/* The default of max_batch. */
	assert_int_equal(board->words[0], 32);
	assert_int_equal(rec->count[CALLBACK_START], 200);
}

static void test_a_batch_has_at_most_the_requested_size(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .process_batch = backwards, .max_batch = 5};
	struct recorder *rec = *state;
	rec->options.gpus = "sim:1";
	rec->tasks = 100;
	rec->on_give = open_when_full;
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	assert_int_equal(board->words[0], 5);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 100);
}

static void test_a_single_task_does_not_wait_for_a_full_batch(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process_batch = backwards};
	struct recorder *rec = *state;
	rec->tasks = 1;
	rec->on_give = open_when_full;
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 1);
}

/* Every third fails, every third is not answered; the largest answers are sent separately. */
static int some_fail(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t n)
{
	static char large[3 << 20];
	(void)state;
	look_at_size(n);
	for (size_t k = 0; k < n; k++) {
		size_t i = k < n / 2 ? 2 * k + 1 : 2 * (k - n / 2); /* the odd ones, then the even ones */
		uint64_t number = recorder_number(&tasks[i]);
		if (number % 3 == 0) {
			memset(large, (int)number, sizeof(large));
			gd_worker_batch_result(w, i, large, number % 2 ? sizeof(large) : 5);
		} else if (number % 3 == 1) {
			gd_worker_batch_fail(w, i, -EDOM, "number %d", (int)number);
		}
	}
	return 0;
}

static int check_some(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	const unsigned char *bytes = event->result.data;
	if (note->kind != CALLBACK_SUCCESS || event->result.size == 0)
		return 0;
	if (bytes[0] != (unsigned char)event->id || bytes[event->result.size - 1] != (unsigned char)event->id)
		rec->extra = rec;
	return 0;
}

static void test_tasks_of_a_batch_fail_or_stay_unanswered_independently(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .process_batch = some_fail, .max_batch = 8};
	struct recorder *rec = *state;
	rec->options.gpus = "sim:1";
	rec->tasks = 48;
	rec->on_note = check_some;
	rec->on_give = open_when_full;
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	assert_null(rec->extra);
	for (size_t i = 0; i < rec->num_notes; i++) {
		const struct run_note *n = &rec->notes[i];
		if (n->kind == CALLBACK_ERROR) {
			char words[32];

			snprintf(words, sizeof(words), "number %d", (int)n->event.id);
			assert_int_equal(n->event.id % 3, 1);
			assert_int_equal(n->event.code, -EDOM);
			assert_string_equal(n->message, words);
		} else if (n->kind == CALLBACK_SUCCESS) {
			assert_int_not_equal(n->event.id % 3, 1);
			if (n->event.id % 3 == 2)
				assert_int_equal(n->event.result.size, 0);
			else
				assert_int_equal(n->event.result.size, n->event.id % 2 ? 3 << 20 : 5);
		}
	}
	assert_int_equal(rec->count[CALLBACK_SUCCESS] + rec->count[CALLBACK_ERROR], 48);
	assert_int_equal(rec->count[CALLBACK_ERROR], 16);
}

/* The first of each batch has an answer; then the hook gives up. */
static int give_up(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t n)
{
	(void)state;
	look_at_size(n);
	uint64_t answer = recorder_number(&tasks[0]);
	gd_worker_batch_result(w, 0, &answer, sizeof(answer));
	if (gd_worker_batch_result(w, 0, &answer, sizeof(answer)) != -EINVAL ||
		gd_worker_batch_result(w, n, "", 0) != -EINVAL)
		return -EPROTO;
	/* An answer to a single task is invalid here, and harmless. */
	if (gd_worker_result(w, "x", 1) != -EINVAL || gd_worker_result_reserve(w, 10))
		return -EPROTO;
	return gd_worker_fail(w, -ENODATA, "no more");
}

static void test_an_error_of_the_hook_is_for_those_without_an_answer(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .process_batch = give_up, .max_batch = 10};
	struct recorder *rec = *state;
	rec->options.gpus = "sim:1";
	rec->tasks = 60;
	rec->on_give = open_when_full;
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	uint64_t batches = board->words[1];
	assert_true(batches < 60);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], batches);
	for (size_t i = 0; i < rec->count[CALLBACK_SUCCESS]; i++) {
		const struct run_note *n = recorder_note(rec, CALLBACK_SUCCESS, i);
		assert_int_equal(n->event.result.size, 8);
		assert_int_equal(n->result, n->event.id);
	}
	for (size_t i = 0; i < rec->count[CALLBACK_ERROR]; i++) {
		const struct run_note *n = recorder_note(rec, CALLBACK_ERROR, i);
		assert_int_equal(n->event.code, -ENODATA);
		assert_string_equal(n->message, "no more");
	}
}

/* The first batch of three or more answers two of its tasks and dies. */
static int die_in_the_middle(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t n)
{
	(void)state;
	look_at_size(n);
	bool deadly = n >= 3 && atomic_exchange(&board->words[3], 1) == 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t answer = answer_to(recorder_number(&tasks[i]));
		if (deadly && i == 2) {
			atomic_store(&board->words[2], n - 2);
			raise(SIGKILL);
		}
		gd_worker_batch_result(w, i, &answer, sizeof(answer));
	}
	return 0;
}

static void test_a_crash_fails_only_unanswered_tasks_of_the_batch(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .process_batch = die_in_the_middle, .max_batch = 6};
	struct recorder *rec = *state;
	rec->tasks = 100;
	rec->options.gpus = "sim:1";
	rec->on_give = open_when_full;
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	assert_in_range(board->words[2], 1, 4);
	assert_int_equal(rec->count[CALLBACK_ERROR], board->words[2]);
	for (size_t i = 0; i < rec->count[CALLBACK_ERROR]; i++) {
		const struct run_note *n = recorder_note(rec, CALLBACK_ERROR, i);
		assert_int_equal(n->event.failure, GD_FAILURE_CRASHED);
		assert_int_equal(n->event.signal, SIGKILL);
	}
	for (size_t i = 0; i < rec->count[CALLBACK_SUCCESS]; i++) {
		const struct run_note *n = recorder_note(rec, CALLBACK_SUCCESS, i);
		assert_int_equal(n->result, answer_to(n->event.id));
	}
	assert_int_equal(rec->stats.restarts, 1);
}

static void test_a_batch_that_died_is_tried_again(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .process_batch = die_in_the_middle, .max_batch = 6};
	struct recorder *rec = *state;
	rec->tasks = 100;
	rec->options.gpus = "sim:1";
	rec->options.retries = 1;
	rec->on_give = open_when_full;
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 100);
	assert_int_equal(rec->stats.retries, board->words[2]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		recorder_test(test_answers_in_any_order_find_their_tasks),
		recorder_test(test_a_batch_has_at_most_the_requested_size),
		recorder_test(test_a_single_task_does_not_wait_for_a_full_batch),
		recorder_test(test_tasks_of_a_batch_fail_or_stay_unanswered_independently),
		recorder_test(test_an_error_of_the_hook_is_for_those_without_an_answer),
		recorder_test(test_a_crash_fails_only_unanswered_tasks_of_the_batch),
		recorder_test(test_a_batch_that_died_is_tried_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
