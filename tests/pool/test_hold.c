/* SPDX-License-Identifier: MIT */
/* gd_event_hold(): bytes of a worker that outlive their callback and their pool. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pattern.h"
#include "recorder.h"
#include "support/board.h"
#include "support/process.h"
#include "support/wait.h"

#define MIB   ((size_t)1 << 20)
#define SMALL ((size_t)1000)
#define LARGE (3 * MIB)
#define MOST  64

struct held {
	struct gd_result *results[MOST];
	uint64_t numbers[MOST]; /* numbers of the byte patterns */
	size_t sizes[MOST];
	const void *data[MOST]; /* address in the callback */
	size_t count;
};

static size_t size_of(uint64_t number)
{
	return number % 3 == 0 ? 0 : number % 3 == 1 ? SMALL : LARGE;
}

/* Holds everything that has bytes, twice. The numbers are the tasks' ids. */
static int hold(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	struct held *held = rec->extra;
	if (note->kind == CALLBACK_START || note->kind == CALLBACK_EXIT)
		return 0;
	for (int i = 0; i < 2; i++) {
		if (held->count == MOST || gd_event_hold(event, &held->results[held->count]) < 0)
			return -ENOMEM;
		held->numbers[held->count] = event->id == UINT64_MAX ? 2 : event->id;
		held->sizes[held->count] = event->result.size;
		held->data[held->count] = event->result.data;
		held->count++;
	}
	return 0;
}

static void assert_held(const struct held *held, size_t count)
{
	assert_int_equal(held->count, count);
	for (size_t i = 0; i < held->count; i++) {
		struct gd_bytes bytes = gd_result_bytes(held->results[i]);
		assert_int_equal(bytes.size, size_of(held->numbers[i]));
		assert_int_equal(bytes.size, held->sizes[i]);
		assert_true(pattern_is_filled(bytes.data, bytes.size, held->numbers[i]));
		/* A large one was not copied. */
		if (bytes.size == LARGE) {
			assert_ptr_equal(bytes.data, held->data[i]);
			assert_true(process_memfd_at(bytes.data) != 0);
		} else {
			assert_true(process_memfd_at(bytes.data) == 0);
		}
	}
}

static void *release_all(void *argument)
{
	struct held *held = argument;
	for (size_t i = 0; i < held->count; i++)
		gd_result_free(held->results[i]);
	return NULL;
}

/* Frees the first handle of each pair; the second must stay valid, and is freed in another thread. */
static void release(struct held *held)
{
	pthread_t thread;
	for (size_t i = 0; i < held->count; i += 2)
		gd_result_free(held->results[i]);
	for (size_t i = 0; 2 * i + 1 < held->count; i++) {
		held->results[i] = held->results[2 * i + 1];
		held->numbers[i] = held->numbers[2 * i + 1];
		held->sizes[i] = held->sizes[2 * i + 1];
		held->data[i] = held->data[2 * i + 1];
	}
	held->count /= 2;
	assert_held(held, held->count);
	assert_int_equal(pthread_create(&thread, NULL, release_all, held), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	for (size_t i = 0; i < held->count; i++)
		if (held->sizes[i] == LARGE)
			assert_true(process_memfd_at(held->data[i]) == 0);
}

static int answer(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	uint64_t number = recorder_number(task);
	void *data = gd_worker_result_reserve(w, size_of(number));
	if (!data)
		return -ENOMEM;
	pattern_fill(data, size_of(number), number);
	return 0;
}

static void run_and_hold(struct recorder *rec, const struct gd_worker_ops *ops, int expected, size_t count)
{
	struct held held = {.count = 0};
	int fds = process_count_fds();
	rec->extra = &held;
	rec->on_note = hold;
	assert_int_equal(recorder_run(rec, ops), expected);
	gd_dispatcher_destroy(rec->dispatcher);
	rec->dispatcher = NULL;
	assert_int_equal(process_count_fds(), fds);
	assert_held(&held, count);
	release(&held);
}

static void test_results_outlive_their_pool(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process = answer};
	run_and_hold(*state, &ops, 0, 20);
}

/* Task 0 ends last: all others are held back. */
static int answer_backwards(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	if (recorder_number(task) == 0)
		board_await(&board->begun, 9);
	int r = answer(w, state, task);
	atomic_fetch_add(&board->begun, 1);
	return r;
}

static void test_results_that_an_ordered_pool_held_back_outlive_it(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process = answer_backwards};
	struct recorder *rec = *state;
	rec->options.ordered = 1;
	run_and_hold(rec, &ops, 0, 20);
}

static int fail_with_answer(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	uint64_t number = recorder_number(task);
	void *data = malloc(LARGE);
	if (!data)
		return -ENOMEM;
	pattern_fill(data, size_of(number), number);
	int r = gd_worker_fail_with(w, -EIO, "failed", data, size_of(number));
	free(data);
	return r;
}

static void test_bytes_of_failures_outlive_their_pool(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process = fail_with_answer};
	run_and_hold(*state, &ops, 0, 20);
}

static int send_answer(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	uint64_t number = recorder_number(task);
	void *data = malloc(LARGE);
	if (!data)
		return -ENOMEM;
	pattern_fill(data, size_of(number), number);
	int r = gd_worker_send(w, data, size_of(number));
	free(data);
	return r < 0 ? r : answer(w, state, task);
}

static void test_messages_outlive_their_pool(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process = send_answer};
	run_and_hold(*state, &ops, 0, 40);
}

static int fail_setup(struct gd_worker *w, void **ret_state)
{
	(void)ret_state;
	void *data = malloc(LARGE);
	if (!data)
		return -ENOMEM;
	pattern_fill(data, LARGE, 2);
	int r = gd_worker_fail_with(w, -ENOENT, "no model", data, LARGE);
	free(data);
	return r;
}

static void test_bytes_of_a_failed_setup_outlive_their_pool(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .setup = fail_setup, .process = answer};
	struct recorder *rec = *state;
	rec->options.gpus = "sim:1";
	rec->tasks = 0;
	struct held held = {.count = 0};
	rec->extra = &held;
	rec->on_note = hold;
	struct gd_pool *pool = recorder_open(rec, &ops);
	assert_int_equal(gd_pool_wait_ready(pool, WAIT_MS), 0);
	assert_int_equal(gd_pool_close(pool, NULL, 0, NULL), 0);
	assert_held(&held, 2);
	release(&held);
}

static void test_a_pool_keeps_no_descriptor_of_what_was_held(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process = answer};
	struct recorder *rec = *state;
	struct held held = {.count = 0};
	rec->extra = &held;
	rec->on_note = hold;
	struct gd_pool *pool = recorder_open(rec, &ops);
	assert_int_equal(gd_pool_wait_ready(pool, WAIT_MS), 2);
	int fds = process_count_fds();
	const uint64_t large = 2;
	for (int i = 0; i < 20; i++)
		assert_int_equal(gd_pool_submit(pool, &large, sizeof(large), NULL, NULL, NULL), 0);
	recorder_drain(pool);
	assert_int_equal(process_count_fds(), fds);
	for (size_t i = 0; i < held.count; i++)
		held.numbers[i] = large;
	assert_held(&held, 40);
	release(&held);
	assert_int_equal(process_count_fds(), fds);
	assert_int_equal(gd_pool_close(pool, NULL, 0, NULL), 0);
}

static void test_freeing_no_result_is_fine(void **state)
{
	(void)state;
	gd_result_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		recorder_test(test_results_outlive_their_pool),
		recorder_test(test_results_that_an_ordered_pool_held_back_outlive_it),
		recorder_test(test_bytes_of_failures_outlive_their_pool),
		recorder_test(test_messages_outlive_their_pool),
		recorder_test(test_bytes_of_a_failed_setup_outlive_their_pool),
		recorder_test(test_a_pool_keeps_no_descriptor_of_what_was_held),
		cmocka_unit_test(test_freeing_no_result_is_fine),
	};
	return cmocka_run_group_tests_name("pool hold", tests, NULL, NULL);
}
