/* SPDX-License-Identifier: MIT */
/* The report of a failing hook: its code, its message, and bytes of any size. TEST_WORKER is a worker program. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pattern.h"
#include "pool/channel.h"
#include "recorder.h"
#include "support/board.h"
#include "support/process.h"
#include "support/wait.h"

#define MIB ((size_t)1 << 20)

static const size_t sizes[] = {0, 1, 64, 4096, CHANNEL_IN_PLACE, CHANNEL_IN_PLACE + 1, 20 * MIB, 3, 5 * MIB, 0};
#define NUM_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static int fail_with_pattern(struct gd_worker *w, int code, const char *message, size_t size, uint64_t number)
{
	void *data = malloc(size + 1);
	if (!data)
		return -ENOMEM;
	pattern_fill(data, size, number);
	int r = gd_worker_fail_with(w, code, message, data, size);
	free(data);
	return r;
}

/* extra: how many of the callbacks of a failure had the bytes that belong to them. */
static int check_bytes(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	size_t *intact = rec->extra;
	if (note->kind != CALLBACK_ERROR)
		return 0;
	*intact += event->result.size == sizes[event->id % NUM_SIZES] &&
		   pattern_is_filled(event->result.data, event->result.size, event->id);
	return 0;
}

/* ---- Bytes -------------------------------------------------------------- */

static int fail_with_bytes(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	uint64_t number = recorder_number(task);
	return fail_with_pattern(w, -EBADMSG, "not understood", sizes[number % NUM_SIZES], number);
}

static void test_a_task_fails_with_bytes_of_any_size(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process = fail_with_bytes};
	struct recorder *rec = *state;
	size_t intact = 0;
	rec->tasks = 2 * NUM_SIZES;
	rec->extra = &intact;
	rec->on_note = check_bytes;
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	assert_int_equal(rec->count[CALLBACK_ERROR], 2 * NUM_SIZES);
	assert_int_equal(intact, 2 * NUM_SIZES);
	for (size_t i = 0; i < 2 * NUM_SIZES; i++) {
		const struct run_note *n = recorder_note(rec, CALLBACK_ERROR, i);
		assert_int_equal(n->event.failure, GD_FAILURE_ERROR);
		assert_int_equal(n->event.code, -EBADMSG);
		assert_string_equal(n->message, "not understood");
	}
}

static int fail_each(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t num_tasks)
{
	(void)state;
	void *data = malloc(20 * MIB);
	if (!data)
		return -ENOMEM;
	/* Backwards, so that all but the last one must wait. */
	for (size_t i = num_tasks; i-- > 0;) {
		uint64_t number = recorder_number(&tasks[i]);
		size_t size = sizes[number % NUM_SIZES];
		pattern_fill(data, size, number);
		gd_worker_batch_fail_with(w, i, EBADMSG, "not understood", data, size);
	}
	free(data);
	return 0;
}

static void test_each_task_of_a_batch_fails_with_its_own_bytes(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process_batch = fail_each};
	struct recorder *rec = *state;
	size_t intact = 0;
	rec->tasks = 2 * NUM_SIZES;
	rec->extra = &intact;
	rec->on_note = check_bytes;
	assert_int_equal(recorder_run(rec, &ops), 0);
	assert_int_equal(intact, 2 * NUM_SIZES);
	assert_int_equal(recorder_note(rec, CALLBACK_ERROR, 0)->event.code, -EBADMSG);
}

static int fail_all(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t num_tasks)
{
	(void)state;
	(void)num_tasks;
	return fail_with_pattern(w, -EBADMSG, "the whole batch", 3 * MIB, recorder_number(&tasks[0]) * 0);
}

static int check_shared_bytes(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	size_t *intact = rec->extra;
	if (note->kind == CALLBACK_ERROR)
		*intact += event->result.size == 3 * MIB && pattern_is_filled(event->result.data, 3 * MIB, 0);
	return 0;
}

static void test_the_bytes_of_a_failed_batch_go_to_all_of_its_tasks(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process_batch = fail_all, .max_batch = 1000};
	struct recorder *rec = *state;
	size_t intact = 0;
	rec->options.gpus = "sim:1";
	rec->tasks = 1000; /* more than the socket holds */
	rec->extra = &intact;
	rec->on_note = check_shared_bytes;
	assert_int_equal(recorder_run(rec, &ops), 0);
	assert_int_equal(intact, 1000);
}

static int fail_with_the_attempt(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	(void)task;
	uint64_t attempt = (uint64_t)gd_worker_attempt(w, 0);
	return fail_with_pattern(w, -EIO, "again", 3 * MIB, attempt);
}

static int check_attempt(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	size_t *intact = rec->extra;
	if (note->kind == CALLBACK_ERROR)
		*intact += event->attempt == 3 && pattern_is_filled(event->result.data, event->result.size, 3);
	return 0;
}

static void test_of_several_attempts_the_bytes_of_the_last_one_arrive(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process = fail_with_the_attempt};
	struct recorder *rec = *state;
	size_t intact = 0;
	rec->options.retries = 2;
	rec->extra = &intact;
	rec->on_note = check_attempt;
	assert_int_equal(recorder_run(rec, &ops), 0);
	assert_int_equal(rec->count[CALLBACK_ERROR], 10);
	assert_int_equal(intact, 10);
}

/* ---- Setup and cleanup -------------------------------------------------- */

static int fail_setup(struct gd_worker *w, void **ret_state)
{
	(void)ret_state;
	return fail_with_pattern(w, -ENOENT, "no model", (size_t)atomic_load(&board->words[0]), 5);
}

static int fail_cleanup(struct gd_worker *w, void *state)
{
	(void)state;
	return fail_with_pattern(w, -EBUSY, "still used", (size_t)atomic_load(&board->words[0]), 5);
}

static int check_hook_bytes(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	size_t *intact = rec->extra;
	if (note->kind == CALLBACK_SETUP_FAIL || note->kind == CALLBACK_CLEANUP_FAIL)
		*intact += event->result.size == atomic_load(&board->words[0]) &&
			   pattern_is_filled(event->result.data, event->result.size, 5);
	return 0;
}

static void run_hook(struct recorder *rec, const struct gd_worker_ops *ops, int expected)
{
	for (size_t i = 0; i < NUM_SIZES; i++) {
		size_t intact = 0;
		recorder_restart(rec);
		rec->tasks = 1;
		rec->extra = &intact;
		rec->on_note = check_hook_bytes;
		atomic_store(&board->words[0], sizes[i]);
		int fds = process_count_fds();
		assert_int_equal(recorder_run(rec, ops), expected);
		assert_int_equal(intact, rec->count[CALLBACK_SETUP_FAIL] + rec->count[CALLBACK_CLEANUP_FAIL]);
		assert_true(intact >= 1);
		gd_dispatcher_destroy(rec->dispatcher);
		rec->dispatcher = NULL;
		assert_int_equal(process_count_fds(), fds);
	}
}

static void test_a_setup_fails_with_bytes_of_any_size(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .setup = fail_setup, .process = recorder_echo};
	struct recorder *rec = *state;
	rec->options.gpus = "sim:1";
	run_hook(rec, &ops, -ENODEV);
	const struct run_note *n = recorder_note(rec, CALLBACK_SETUP_FAIL, 0);
	assert_int_equal(n->event.code, -ENOENT);
	assert_string_equal(n->message, "no model");
	assert_true(n->event.id == UINT64_MAX);
}

static void test_a_cleanup_fails_with_bytes_of_any_size(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(ops), .process = recorder_echo, .cleanup = fail_cleanup};
	struct recorder *rec = *state;
	rec->options.gpus = "sim:1";
	run_hook(rec, &ops, 0);
	const struct run_note *n = recorder_note(rec, CALLBACK_CLEANUP_FAIL, 0);
	assert_int_equal(n->event.code, -EBUSY);
	assert_string_equal(n->message, "still used");
}

static int wait_for_the_timeout(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	while (!gd_worker_cancelled(w, 0))
		;
	return fail_with_pattern(w, -EIO, "interrupted", recorder_number(task) % 2 ? 3 * MIB : 100, 1);
}

static void test_a_task_that_timed_out_has_no_bytes(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process = wait_for_the_timeout};
	struct recorder *rec = *state;
	rec->options.task_timeout_ms = 20;
	rec->options.grace_ms = WAIT_MS;
	rec->tasks = 4;
	assert_int_equal(recorder_run(rec, &ops), 0);
	assert_int_equal(rec->count[CALLBACK_TIMEOUT], 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(recorder_note(rec, CALLBACK_TIMEOUT, i)->event.result.size, 0);
}

static void test_an_executed_worker_fails_with_bytes(void **state)
{
	struct recorder *rec = *state;
	const char *const argv[] = {getenv("TEST_WORKER"), NULL};
	rec->options.worker_argv = argv;
	struct gd_pool *pool = recorder_open(rec, NULL);
	assert_int_equal(gd_pool_submit(pool, "fail", 4, NULL, NULL, NULL), 0);
	recorder_drain(pool);
	const struct run_note *n = recorder_note(rec, CALLBACK_ERROR, 0);
	assert_non_null(n);
	assert_int_equal(n->event.result.size, 3 * MIB);
	assert_string_equal(n->message, "with bytes");
	assert_int_equal(gd_pool_close(pool, NULL, 0, NULL), 0);
}

/* ---- Error messages ----------------------------------------------------- */

/* The character after 1022 bytes has three bytes and does not fit. */
static int fail_at_length(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	char words[2000];
	memset(words, 'x', 1022);
	strcpy(words + 1022, "\xE2\x82\xAC and more");
	if (recorder_number(task) == 0)
		return gd_worker_fail(w, -EIO, "%s", words);
	if (recorder_number(task) == 1)
		return gd_worker_fail_with(w, -EIO, words, "bytes", 5);
	return gd_worker_fail_with(w, -EIO, words + 2, "bytes", 5); /* 1020 bytes: it fits */
}

static int check_length(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	size_t *lengths = rec->extra;
	if (note->kind == CALLBACK_ERROR)
		lengths[event->id] = strlen(event->message);
	return 0;
}

static void test_a_long_message_is_cut_at_a_whole_character(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process = fail_at_length};
	struct recorder *rec = *state;
	size_t lengths[3] = {0};
	rec->tasks = 3;
	rec->extra = lengths;
	rec->on_note = check_length;
	assert_int_equal(recorder_run(rec, &ops), 0);
	assert_int_equal(lengths[0], 1022);
	assert_int_equal(lengths[1], 1022);
	assert_int_equal(lengths[2], 1023);
}

/* ---- Positive values ---------------------------------------------------- */

enum { RETURN_5, RETURN_FAIL, RETURN_FAIL_0, RETURN_MESSAGE, RETURN_MUCH, RETURN_UNKNOWN, RETURNS };

static int return_positive(struct gd_worker *w, uint64_t how)
{
	switch (how) {
	case RETURN_FAIL:
		return gd_worker_fail(w, EIO, "no model");
	case RETURN_FAIL_0: /* it still counts as a failure */
		return gd_worker_fail(w, 0, "no model");
	case RETURN_MESSAGE:
		gd_worker_fail(w, -ENOENT, "no model");
		return 5;
	case RETURN_MUCH:
		return 70000;
	case RETURN_UNKNOWN:
		return 4000;
	default:
		return 5;
	}
}

static const struct {
	int code;
	const char *message;
} positive[RETURNS] = {
	[RETURN_5] = {-5,
		"%s returned 5; hooks return 0 or a negative errno value (did you mean -5, Input/output error?)"},
	[RETURN_FAIL] = {-EIO, "no model"},
	[RETURN_FAIL_0] = {-EIO, "no model"},
	[RETURN_MESSAGE] = {-5, "no model"},
	[RETURN_MUCH] = {-EIO, "%s returned 70000; hooks return 0 or a negative errno value"},
	[RETURN_UNKNOWN] = {-4000, "%s returned 4000; hooks return 0 or a negative errno value"},
};

static void assert_explained(const struct run_note *n, uint64_t how, const char *hook)
{
	char expected[RECORDER_WORDS];
	assert_non_null(n);
	const char *format = positive[how].message;
	if (strncmp(format, "%s", 2) == 0)
		snprintf(expected, sizeof(expected), "%s%s", hook, format + 2);
	else
		snprintf(expected, sizeof(expected), "%s", format);
	assert_string_equal(n->message, expected);
	assert_int_equal(n->event.code, positive[how].code);
	assert_int_equal(n->event.failure, GD_FAILURE_ERROR);
}

static int positive_process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	gd_worker_result(w, "lost", 4);
	return return_positive(w, recorder_number(task));
}

static int positive_batch(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t num_tasks)
{
	(void)state;
	(void)num_tasks;
	return return_positive(w, recorder_number(&tasks[0]));
}

static int positive_setup(struct gd_worker *w, void **ret_state)
{
	(void)ret_state;
	return return_positive(w, (uint64_t)atomic_load(&board->notes[0]));
}

static int positive_cleanup(struct gd_worker *w, void *state)
{
	(void)state;
	return return_positive(w, (uint64_t)atomic_load(&board->notes[0]));
}

static void test_a_positive_value_of_process_is_a_failure(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process = positive_process};
	static const struct gd_worker_ops batch = {
		.size = sizeof(ops), .process_batch = positive_batch, .max_batch = 1};
	struct recorder *rec = *state;
	for (int batches = 0; batches < 2; batches++) {
		recorder_restart(rec);
		rec->tasks = RETURNS;
		assert_int_equal(recorder_run(rec, batches ? &batch : &ops), 0);
		assert_int_equal(rec->count[CALLBACK_ERROR], RETURNS);
		for (size_t i = 0; i < RETURNS; i++) {
			const struct run_note *n = recorder_note(rec, CALLBACK_ERROR, i);
			assert_explained(n, n->event.id, batches ? "process_batch" : "process");
		}
		gd_dispatcher_destroy(rec->dispatcher);
		rec->dispatcher = NULL;
	}
}

static void test_a_positive_value_of_setup_or_cleanup_is_a_failure(void **state)
{
	static const struct gd_worker_ops setup = {
		.size = sizeof(setup), .setup = positive_setup, .process = recorder_echo};
	static const struct gd_worker_ops cleanup = {
		.size = sizeof(cleanup), .process = recorder_echo, .cleanup = positive_cleanup};
	struct recorder *rec = *state;
	rec->options.gpus = "sim:1";
	for (int how = 0; how < RETURNS; how++) {
		atomic_store(&board->notes[0], how);
		recorder_restart(rec);
		assert_int_equal(recorder_run(rec, &setup), -ENODEV);
		assert_explained(recorder_note(rec, CALLBACK_SETUP_FAIL, 0), (uint64_t)how, "setup");
		gd_dispatcher_destroy(rec->dispatcher);
		rec->dispatcher = NULL;
		recorder_restart(rec);
		assert_int_equal(recorder_run(rec, &cleanup), 0);
		assert_explained(recorder_note(rec, CALLBACK_CLEANUP_FAIL, 0), (uint64_t)how, "cleanup");
		gd_dispatcher_destroy(rec->dispatcher);
		rec->dispatcher = NULL;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		recorder_test(test_a_task_fails_with_bytes_of_any_size),
		recorder_test(test_each_task_of_a_batch_fails_with_its_own_bytes),
		recorder_test(test_the_bytes_of_a_failed_batch_go_to_all_of_its_tasks),
		recorder_test(test_of_several_attempts_the_bytes_of_the_last_one_arrive),
		recorder_test(test_a_setup_fails_with_bytes_of_any_size),
		recorder_test(test_a_cleanup_fails_with_bytes_of_any_size),
		recorder_test(test_a_task_that_timed_out_has_no_bytes),
		recorder_test(test_an_executed_worker_fails_with_bytes),
		recorder_test(test_a_long_message_is_cut_at_a_whole_character),
		recorder_test(test_a_positive_value_of_process_is_a_failure),
		recorder_test(test_a_positive_value_of_setup_or_cleanup_is_a_failure),
	};
	return cmocka_run_group_tests_name("pool failures", tests, NULL, NULL);
}
