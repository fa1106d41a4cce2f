/* SPDX-License-Identifier: MIT */
/* The generator of a run: when it is called, in which thread, and how its errors are handled. */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>

#include "recorder.h"
#include "support/board.h"

static const struct gd_worker_ops echo = {.size = sizeof(struct gd_worker_ops), .process = recorder_echo};

static void test_run_without_tasks_succeeds(void **state)
{
	struct recorder *rec = *state;
	rec->tasks = 0;
	assert_int_equal(recorder_run(rec, &echo), 0);
	assert_int_equal(rec->stats.submitted, 0);
	assert_int_equal(rec->count[CALLBACK_EXIT], 1);
	assert_int_equal(rec->num_notes, 1);
}

/* Before it yields the second task, waits until the callback of the first was called. */
static void wait_for_callback(struct recorder *rec)
{
	if (rec->given == 1)
		rec->extra = board_pass_gate(0) ? rec : NULL;
}

static int open_gate(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)rec;
	(void)event;
	if (note->kind == CALLBACK_SUCCESS)
		board_open_gate(0);
	return 0;
}

static void test_blocking_generator_delays_no_callback(void **state)
{
	struct recorder *rec = *state;
	rec->on_give = wait_for_callback;
	rec->on_note = open_gate;
	assert_int_equal(recorder_run(rec, &echo), 0);
	assert_non_null(rec->extra);
	recorder_assert_complete(rec);
}

static pthread_t caller;

static void note_thread(struct recorder *rec)
{
	if (pthread_equal(caller, pthread_self()))
		rec->extra = rec;
}

static void test_an_inline_generator_runs_on_the_callers_thread(void **state)
{
	struct recorder *rec = *state;
	caller = pthread_self();
	rec->on_give = note_thread;
	assert_int_equal(recorder_run(rec, &echo), 0);
	assert_null(rec->extra);
	recorder_restart(rec);
	rec->tasks = 5000;
	rec->run.inline_generator = true;
	assert_int_equal(recorder_run(rec, &echo), 0);
	assert_non_null(rec->extra);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 5000);
	recorder_assert_complete(rec);
}

static int fail_at_five(void *context, struct gd_feed *feed)
{
	struct recorder *rec = context;
	if (rec->given == 5)
		return -EBADMSG;
	uint64_t n = rec->given++;
	int r = gd_feed_emit(feed, &n, sizeof(n), NULL, NULL);
	return r < 0 ? r : 1;
}

static void test_a_generator_that_fails_ends_the_run_with_its_error(void **state)
{
	struct recorder *rec = *state;
	rec->run.generator = fail_at_five;
	for (int is_inline = 0; is_inline < 2; is_inline++) {
		rec->run.inline_generator = is_inline;
		recorder_restart(rec);
		assert_int_equal(recorder_run(rec, &echo), -EBADMSG);
		assert_string_equal(rec->err.message, "the generator failed: Bad message");
		assert_int_equal(rec->err.code, -EBADMSG);
		/* Tasks that it had yielded before are still processed. */
		assert_int_equal(rec->count[CALLBACK_SUCCESS], 5);
		recorder_assert_complete(rec);
	}
}

static int emit_wrongly(void *context, struct gd_feed *feed)
{
	struct recorder *rec = context;
	uint64_t n = rec->given;
	if (n == 2)
		return 1; /* nothing was emitted */
	rec->given++;
	if (gd_feed_emit(feed, &n, sizeof(n), NULL, NULL) < 0)
		return -EIO;
	if (gd_feed_emit(feed, &n, sizeof(n), NULL, NULL) != -EALREADY || gd_feed_reserve(feed, 1, NULL, NULL))
		return -EIO;
	return 1;
}

static void test_generator_must_give_one_task_per_call(void **state)
{
	struct recorder *rec = *state;
	rec->run.generator = emit_wrongly;
	assert_int_equal(recorder_run(rec, &echo), -ENODATA);
	check_contains(rec->err.message, "the generator returned 1 without a task");
	assert_int_equal(rec->stats.completed, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		recorder_test(test_run_without_tasks_succeeds),
		recorder_test(test_blocking_generator_delays_no_callback),
		recorder_test(test_an_inline_generator_runs_on_the_callers_thread),
		recorder_test(test_a_generator_that_fails_ends_the_run_with_its_error),
		recorder_test(test_generator_must_give_one_task_per_call),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
