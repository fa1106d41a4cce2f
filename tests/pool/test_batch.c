/* SPDX-License-Identifier: MIT */
/* process_batch: several tasks at once, answered in any order or not at all. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab.h"

/* Notes the largest batch; holds the first one back until the queue is full, so that the next is large. */
static void look_at_size(size_t n)
{
	uint64_t most = atomic_load(&lab_shared->words[0]);
	if (n > most)
		atomic_store(&lab_shared->words[0], n);
	if (atomic_fetch_add(&lab_shared->words[1], 1) == 0)
		lab_pass(0);
}

static void open_when_full(struct lab *lab)
{
	if (lab->given + 1 == lab->tasks)
		lab_open(0);
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
		uint64_t number = lab_number(&tasks[i]);
		if (gd_worker_task_id(w, i) != number || gd_worker_attempt(w, i) != 1)
			return gd_fail(w, -EPROTO, "task %zu of the batch is another one", i);
		uint64_t answer = answer_to(number);
		int r = gd_batch_result(w, i, &answer, sizeof(answer));
		if (r < 0)
			return r;
	}
	return gd_worker_task_id(w, n) == UINT64_MAX ? 0 : -EPROTO;
}

static void test_answers_in_any_order_find_their_tasks(void **state)
{
	static const struct gd_worker_ops ops = {.process_batch = backwards};
	struct lab *lab = *state;
	lab->options.gpus = "sim:1";
	lab->tasks = 200;
	lab->on_give = open_when_full;
	assert_int_equal(lab_run(lab, &ops), 0);
	lab_assert_complete(lab);
	assert_int_equal(lab->count[LAB_SUCCESS], 200);
	for (size_t i = 0; i < 200; i++) {
		const struct lab_note *n = lab_note(lab, LAB_SUCCESS, i);
		assert_int_equal(n->result, answer_to(n->event.id));
	}
	/* The default, and no more than it. */
	assert_int_equal(lab->shared->words[0], 32);
	assert_int_equal(lab->count[LAB_START], 200);
}

static void test_a_batch_is_as_large_as_asked_for_at_most(void **state)
{
	static const struct gd_worker_ops ops = {.process_batch = backwards, .max_batch = 5};
	struct lab *lab = *state;
	lab->options.gpus = "sim:1";
	lab->tasks = 100;
	lab->on_give = open_when_full;
	assert_int_equal(lab_run(lab, &ops), 0);
	lab_assert_complete(lab);
	assert_int_equal(lab->shared->words[0], 5);
	assert_int_equal(lab->count[LAB_SUCCESS], 100);
}

static void test_a_lone_task_does_not_wait_for_company(void **state)
{
	static const struct gd_worker_ops ops = {.process_batch = backwards};
	struct lab *lab = *state;
	lab->tasks = 1;
	lab->on_give = open_when_full;
	assert_int_equal(lab_run(lab, &ops), 0);
	lab_assert_complete(lab);
	assert_int_equal(lab->count[LAB_SUCCESS], 1);
}

/* Every third fails, every third is not answered; the largest answers travel on their own. */
static int some_fail(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t n)
{
	static char large[3 << 20];
	(void)state;
	look_at_size(n);
	for (size_t k = 0; k < n; k++) {
		size_t i = k < n / 2 ? 2 * k + 1 : 2 * (k - n / 2); /* the odd ones, then the even ones */
		uint64_t number = lab_number(&tasks[i]);
		if (number % 3 == 0) {
			memset(large, (int)number, sizeof(large));
			gd_batch_result(w, i, large, number % 2 ? sizeof(large) : 5);
		} else if (number % 3 == 1) {
			gd_batch_fail(w, i, -EDOM, "number %d", (int)number);
		}
	}
	return 0;
}

static int check_some(struct lab *lab, const struct lab_note *note, const struct gd_event *event)
{
	const unsigned char *bytes = event->result.data;
	if (note->kind != LAB_SUCCESS || event->result.size == 0)
		return 0;
	if (bytes[0] != (unsigned char)event->id || bytes[event->result.size - 1] != (unsigned char)event->id)
		lab->extra = lab;
	return 0;
}

static void test_some_fail_and_some_are_not_answered(void **state)
{
	static const struct gd_worker_ops ops = {.process_batch = some_fail, .max_batch = 8};
	struct lab *lab = *state;
	lab->options.gpus = "sim:1";
	lab->tasks = 48;
	lab->on_note = check_some;
	lab->on_give = open_when_full;
	assert_int_equal(lab_run(lab, &ops), 0);
	lab_assert_complete(lab);
	assert_null(lab->extra);
	for (size_t i = 0; i < lab->num_notes; i++) {
		const struct lab_note *n = &lab->notes[i];
		if (n->kind == LAB_ERROR) {
			char words[32];

			snprintf(words, sizeof(words), "number %d", (int)n->event.id);
			assert_int_equal(n->event.id % 3, 1);
			assert_int_equal(n->event.code, -EDOM);
			assert_string_equal(n->message, words);
		} else if (n->kind == LAB_SUCCESS) {
			assert_int_not_equal(n->event.id % 3, 1);
			if (n->event.id % 3 == 2)
				assert_int_equal(n->event.result.size, 0);
			else
				assert_int_equal(n->event.result.size, n->event.id % 2 ? 3 << 20 : 5);
		}
	}
	assert_int_equal(lab->count[LAB_SUCCESS] + lab->count[LAB_ERROR], 48);
	assert_int_equal(lab->count[LAB_ERROR], 16);
}

/* The first of each batch has an answer; then the hook gives up. */
static int give_up(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t n)
{
	(void)state;
	look_at_size(n);
	uint64_t answer = lab_number(&tasks[0]);
	gd_batch_result(w, 0, &answer, sizeof(answer));
	if (gd_batch_result(w, 0, &answer, sizeof(answer)) != -EINVAL || gd_batch_result(w, n, "", 0) != -EINVAL)
		return -EPROTO;
	/* An answer to a single task is out of place here, and harms nobody. */
	if (gd_result(w, "x", 1) != -EINVAL || gd_result_reserve(w, 10))
		return -EPROTO;
	return gd_fail(w, -ENODATA, "no more");
}

static void test_an_error_of_the_hook_is_for_those_without_an_answer(void **state)
{
	static const struct gd_worker_ops ops = {.process_batch = give_up, .max_batch = 10};
	struct lab *lab = *state;
	lab->options.gpus = "sim:1";
	lab->tasks = 60;
	lab->on_give = open_when_full;
	assert_int_equal(lab_run(lab, &ops), 0);
	lab_assert_complete(lab);
	uint64_t batches = lab->shared->words[1];
	assert_true(batches < 60);
	assert_int_equal(lab->count[LAB_SUCCESS], batches);
	for (size_t i = 0; i < lab->count[LAB_SUCCESS]; i++) {
		const struct lab_note *n = lab_note(lab, LAB_SUCCESS, i);
		assert_int_equal(n->event.result.size, 8);
		assert_int_equal(n->result, n->event.id);
	}
	for (size_t i = 0; i < lab->count[LAB_ERROR]; i++) {
		const struct lab_note *n = lab_note(lab, LAB_ERROR, i);
		assert_int_equal(n->event.code, -ENODATA);
		assert_string_equal(n->message, "no more");
	}
}

/* The batch with task 20 answers two of its tasks, if it has more, and dies. */
static int die_in_the_middle(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t n)
{
	(void)state;
	bool deadly = false;
	size_t last = n > 2 ? 2 : n - 1;
	look_at_size(n);
	for (size_t i = 0; i < n; i++)
		deadly |= lab_number(&tasks[i]) == 20 && gd_worker_attempt(w, i) == 1;
	for (size_t i = 0; i < n; i++) {
		uint64_t answer = answer_to(lab_number(&tasks[i]));
		if (deadly && i == last) {
			atomic_store(&lab_shared->words[2], n - last);
			raise(SIGKILL);
		}
		gd_batch_result(w, i, &answer, sizeof(answer));
	}
	return 0;
}

static void test_a_crash_costs_what_the_batch_had_not_answered(void **state)
{
	static const struct gd_worker_ops ops = {.process_batch = die_in_the_middle, .max_batch = 6};
	struct lab *lab = *state;
	lab->tasks = 100;
	lab->options.gpus = "sim:1";
	lab->on_give = open_when_full;
	assert_int_equal(lab_run(lab, &ops), 0);
	lab_assert_complete(lab);
	assert_in_range(lab->shared->words[2], 1, 4);
	assert_int_equal(lab->count[LAB_ERROR], lab->shared->words[2]);
	for (size_t i = 0; i < lab->count[LAB_ERROR]; i++) {
		const struct lab_note *n = lab_note(lab, LAB_ERROR, i);
		assert_int_equal(n->event.failure, GD_CRASHED);
		assert_int_equal(n->event.signal, SIGKILL);
	}
	for (size_t i = 0; i < lab->count[LAB_SUCCESS]; i++) {
		const struct lab_note *n = lab_note(lab, LAB_SUCCESS, i);
		assert_int_equal(n->result, answer_to(n->event.id));
	}
	assert_int_equal(lab->stats.restarts, 1);
}

static void test_a_batch_that_died_is_tried_again(void **state)
{
	static const struct gd_worker_ops ops = {.process_batch = die_in_the_middle, .max_batch = 6};
	struct lab *lab = *state;
	lab->tasks = 100;
	lab->options.gpus = "sim:1";
	lab->options.retries = 1;
	lab->on_give = open_when_full;
	assert_int_equal(lab_run(lab, &ops), 0);
	lab_assert_complete(lab);
	assert_int_equal(lab->count[LAB_SUCCESS], 100);
	assert_int_equal(lab->stats.retries, lab->shared->words[2]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_answers_in_any_order_find_their_tasks, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(test_a_batch_is_as_large_as_asked_for_at_most, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(test_a_lone_task_does_not_wait_for_company, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(test_some_fail_and_some_are_not_answered, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(
			test_an_error_of_the_hook_is_for_those_without_an_answer, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(
			test_a_crash_costs_what_the_batch_had_not_answered, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(test_a_batch_that_died_is_tried_again, lab_setup, lab_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
