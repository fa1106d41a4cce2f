/* SPDX-License-Identifier: MIT */
/* Options of a run that override those of the dispatcher. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "recorder.h"
#include "support/board.h"
#include "support/wait.h"

/* The worker answers with its input. */
static int tell(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	(void)task;
	char text[128];
	int n = snprintf(text, sizeof(text), "a=%s b=%s c=%s seed=%lld", gd_worker_setting(w, "a", "-"),
		gd_worker_setting(w, "b", "-"), gd_worker_setting(w, "c", "-"), (long long)gd_worker_seed(w));
	return gd_worker_result(w, text, (size_t)n + 1);
}

static const struct gd_worker_ops teller = {.size = sizeof(teller), .process = tell};
static char told[128];

static int take(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)rec;
	if (note->kind == CALLBACK_SUCCESS)
		snprintf(told, sizeof(told), "%s", (const char *)event->result.data);
	return 0;
}

static void assert_told(struct recorder *rec, const char *words)
{
	recorder_restart(rec);
	told[0] = '\0';
	assert_int_equal(recorder_run(rec, &teller), 0);
	assert_string_equal(told, words);
}

static void begin(struct recorder *rec)
{
	rec->options.gpus = "sim:1";
	rec->tasks = 1;
	rec->on_note = take;
}

static void test_settings_of_a_run_are_added_and_replace(void **state)
{
	struct recorder *rec = *state;
	static const struct gd_setting general[] = {{"a", "1"}, {"b", "2"}};
	const struct gd_setting special[] = {{"b", "two"}, {"c", "xyz", 2}};
	begin(rec);
	rec->options.settings = general;
	rec->options.num_settings = 2;
	assert_told(rec, "a=1 b=2 c=- seed=42");
	rec->run.settings = special;
	rec->run.num_settings = 2;
	assert_told(rec, "a=1 b=two c=xy seed=42");
	rec->run.settings = NULL;
	rec->run.num_settings = 0;
	assert_told(rec, "a=1 b=2 c=- seed=42");
}

static void test_settings_of_a_run_need_none_in_the_options(void **state)
{
	struct recorder *rec = *state;
	const struct gd_setting special = {"a", "1"};
	begin(rec);
	rec->run.settings = &special;
	rec->run.num_settings = 1;
	assert_told(rec, "a=1 b=- c=- seed=42");
}

static void test_wrong_settings_of_a_run_are_refused(void **state)
{
	struct recorder *rec = *state;
	begin(rec);
	rec->run.num_settings = 1;
	assert_int_equal(recorder_run(rec, &teller), -EINVAL);
	check_contains(rec->err.message, "num_settings of the run is 1, but settings is NULL");
	const struct gd_setting nameless = {NULL, "1"};
	rec->run.settings = &nameless;
	assert_int_equal(recorder_run(rec, &teller), -EINVAL);
	check_contains(rec->err.message, "has no key");
	assert_int_equal(rec->count[CALLBACK_EXIT], 2);
}

static void test_seed_of_a_run(void **state)
{
	struct recorder *rec = *state;
	begin(rec);
	rec->options.base_seed = 7;
	assert_told(rec, "a=- b=- c=- seed=7");
	rec->run.base_seed = 1000;
	assert_told(rec, "a=- b=- c=- seed=1000");
	rec->run.base_seed = 0;
	assert_told(rec, "a=- b=- c=- seed=7");
	rec->run.has_base_seed = 1;
	assert_told(rec, "a=- b=- c=- seed=0");
	rec->run.base_seed = -3;
	assert_told(rec, "a=- b=- c=- seed=-3");
	rec->run.has_base_seed = 0;
	rec->run.base_seed = 0;
	assert_told(rec, "a=- b=- c=- seed=7");
}

static int until_cancelled_or_go(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	(void)task;
	wait_until(gd_worker_cancelled(w, 0) || atomic_load(&board->go));
	return 0;
}

static int let_go_at_start(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)rec;
	(void)event;
	if (note->kind == CALLBACK_START)
		atomic_store(&board->go, 1);
	return 0;
}

static void test_time_limit_of_a_run(void **state)
{
	struct recorder *rec = *state;
	static const struct gd_worker_ops waiter = {.size = sizeof(waiter), .process = until_cancelled_or_go};
	begin(rec);
	rec->on_note = NULL;
	rec->run.task_timeout_ms = 30;
	assert_int_equal(recorder_run(rec, &waiter), 0);
	assert_int_equal(rec->count[CALLBACK_TIMEOUT], 1);
	assert_int_equal(recorder_note(rec, CALLBACK_TIMEOUT, 0)->event.timeout_ms, 30);
	/* The next run has the options' limit again: none. */
	recorder_restart(rec);
	rec->on_note = let_go_at_start;
	rec->run.task_timeout_ms = 0;
	assert_int_equal(recorder_run(rec, &waiter), 0);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 1);
	rec->run.task_timeout_ms = -1;
	assert_int_equal(recorder_run(rec, &waiter), -EINVAL);
	check_contains(rec->err.message, "task_timeout_ms is -1");
}

static int count_success(void *context, const struct gd_event *event)
{
	(void)event;
	++*(int *)context;
	return 0;
}

static void test_each_run_has_its_own_callbacks(void **state)
{
	struct recorder *rec = *state;
	int count = 0;
	const struct gd_callbacks others = {.size = sizeof(others), .context = &count, .on_success = count_success};
	begin(rec);
	assert_told(rec, "a=- b=- c=- seed=42");
	recorder_restart(rec);
	assert_int_equal(gd_dispatcher_run(rec->dispatcher, &rec->run, &others, &rec->err), 0);
	assert_int_equal(count, 1);
	assert_int_equal(rec->num_notes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		recorder_test(test_settings_of_a_run_are_added_and_replace),
		recorder_test(test_settings_of_a_run_need_none_in_the_options),
		recorder_test(test_wrong_settings_of_a_run_are_refused),
		recorder_test(test_seed_of_a_run),
		recorder_test(test_time_limit_of_a_run),
		recorder_test(test_each_run_has_its_own_callbacks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
