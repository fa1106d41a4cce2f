/* SPDX-License-Identifier: MIT */
/* A persistent program: its input, and every possible error. */
#include "file_rig.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *argv_of[4];

static struct file_rig *rig_of(void **state, const char *mode)
{
	struct file_rig *rig = *state;
	argv_of[0] = getenv("TEST_SPEAKER");
	argv_of[1] = mode;
	argv_of[2] = rig->dir;
	assert_non_null(argv_of[0]);
	rig->worker.kind = LAUNCH_PROGRAM;
	rig->worker.argv = argv_of;
	return rig;
}

/* Runs this file and another one that must succeed, whatever happened to the first. */
static const struct file_end *run_then_another(struct file_rig *rig, const char *name)
{
	file_rig_open(rig);
	file_rig_submit(rig, name, -1);
	file_rig_await(rig, 1);
	file_rig_submit(rig, "fine", -1);
	file_rig_await(rig, 2);
	file_rig_close(rig);
	assert_string_equal(rig->ends[1].message, "");
	assert_true(rig->ends[1].seconds == 12.5);
	assert_true(file_rig_named_gone(rig, "speaker"));
	return &rig->ends[0];
}

/* ---- Normal operation --------------------------------------------------- */

static void test_program_is_set_up_once_and_answers_each_file(void **state)
{
	struct file_rig *rig = rig_of(state, "good");
	static const struct gd_setting settings[] = {
		{.key = "model_size", .value = "base"}, {.key = "language", .value = "en"}};
	rig->worker.settings = settings;
	rig->worker.num_settings = 2;
	file_rig_open(rig);
	file_rig_submit(rig, "a b\"\n.png", -1);
	file_rig_submit(rig, "plain", 3.5);
	file_rig_submit(rig, "\xff.png", -1);
	for (int i = 0; i < 100; i++)
		file_rig_submit(rig, "more", -1);
	file_rig_await(rig, 103);
	file_rig_close(rig);
	for (size_t i = 0; i < 103; i++)
		assert_string_equal(rig->ends[i].message, "");
	assert_true(rig->ends[0].seconds == 12.5);
	assert_true(rig->ends[1].seconds == 3.5); /* the file's own, if the program reports none */
	char expected[2048];
	snprintf(expected, sizeof(expected),
		"{\"type\":\"setup\",\"gpu\":0,\"seed\":42,\"settings\":{\"model_size\":\"base\",\"language\":\"en\"},"
		"\"device\":0}\n"
		"{\"type\":\"task\",\"id\":0,\"file\":\"%s/a b\\\"\\n.png\",\"output_dir\":\"%s\"}\n",
		rig->dir, rig->dir);
	assert_memory_equal(file_rig_read(rig, "heard"), expected, strlen(expected));
	assert_int_equal(check_occurrences(file_rig_read(rig, "heard"), "\"setup\""), 1);
	assert_int_equal(check_occurrences(file_rig_read(rig, "heard"), "\"file_b64\""), 1);
	assert_int_equal(atoi(file_rig_read(rig, "left")), 1); /* at the end of its input, not killed */
}

/* A worker that does not know file_b64 fails, as the speaker does for names that it does not find. */
static void test_failure_of_a_file_whose_path_is_not_utf8_says_so(void **state)
{
	struct file_rig *rig = rig_of(state, "strict");
	const struct file_end *end = run_then_another(rig, "\xff.png");
	assert_int_equal(end->failure, GD_FAILURE_ERROR);
	assert_string_equal(
		end->message, "no file (the path is not UTF-8, so the worker gets only file_b64 instead of file)");
	assert_null(strstr(file_rig_read(rig, "heard"), "\xEF\xBF\xBD"));
}

static void test_file_that_fails_does_not_affect_other_files(void **state)
{
	struct file_rig *rig = rig_of(state, "good");
	const struct file_end *end = run_then_another(rig, "fails");
	assert_int_equal(end->failure, GD_FAILURE_ERROR);
	assert_string_equal(end->message, "not \xc3\xa0 picture");
	assert_int_equal(check_occurrences(file_rig_read(rig, "heard"), "\"setup\""), 1);
}

static void test_file_that_fails_without_a_reason_says_so(void **state)
{
	assert_string_equal(
		run_then_another(rig_of(state, "good"), "refuses")->message, "no reason given by the program");
}

static void test_rubbish_before_and_among_the_lines_does_no_harm(void **state)
{
	struct file_rig *rig = rig_of(state, "noisy");
	const struct file_end *end = run_then_another(rig, "noisy");
	assert_string_equal(end->message, "");
	assert_int_equal(check_occurrences(file_rig_read(rig, "heard"), "\"setup\""), 1);
}

static void test_messages_of_unknown_type_are_ignored(void **state)
{
	assert_string_equal(run_then_another(rig_of(state, "chatty"), "one")->message, "");
}

static void test_program_that_leaves_between_files_is_started_again(void **state)
{
	struct file_rig *rig = rig_of(state, "leaves");
	file_rig_open(rig);
	for (size_t i = 0; i < 5; i++) {
		file_rig_submit(rig, "one", -1);
		file_rig_await(rig, i + 1);
		assert_string_equal(rig->ends[i].message, "");
		assert_true(file_rig_named_gone(rig, "speaker"));
	}
	file_rig_close(rig);
	assert_int_equal(check_occurrences(file_rig_read(rig, "heard"), "\"setup\""), 5);
}

/* ---- In its setup ------------------------------------------------------- */

static const char *fail_to_set_up(struct file_rig *rig)
{
	file_rig_open(rig);
	file_rig_await_setup_failure(rig);
	gd_pool_close(rig->pool, NULL, 0, NULL);
	rig->pool = NULL;
	assert_true(file_rig_named_gone(rig, "speaker"));
	return rig->setup_message;
}

static void test_error_in_setup_is_reported(void **state)
{
	struct file_rig *rig = rig_of(state, "refuses");
	check_contains(fail_to_set_up(rig), "speaker': no model \"x\" here");
}

static void test_program_that_is_never_ready_is_given_up(void **state)
{
	struct file_rig *rig = rig_of(state, "mute");
	rig->worker.ready_timeout_ms = 500;
	const char *words = fail_to_set_up(rig);
	check_contains(words, "it was not ready after 0.5 s (does it flush its output");
}

static void test_program_that_does_not_even_read_is_given_up(void **state)
{
	struct file_rig *rig = rig_of(state, "deaf");
	rig->worker.ready_timeout_ms = 500;
	check_contains(fail_to_set_up(rig), "it was not ready after 0.5 s");
}

static void test_program_that_ends_in_its_setup_is_reported_with_its_last_line(void **state)
{
	check_contains(fail_to_set_up(rig_of(state, "gone")),
		"speaker': it ended before it was ready: exit 4: no module named torch");
}

static void test_answer_before_ready_is_an_error(void **state)
{
	check_contains(fail_to_set_up(rig_of(state, "early")), "it answered before it was ready");
}

static void test_broken_line_in_setup_is_shown(void **state)
{
	check_contains(fail_to_set_up(rig_of(state, "broken")), "it is not a JSON object: {\"type\":ready}");
}

static void test_missing_program_is_found_before_the_start(void **state)
{
	struct file_rig *rig = rig_of(state, "good");
	argv_of[0] = "pyton3";
	struct gd_error err = {0};
	assert_int_equal(launch_worker_check(&rig->worker, &err), -ENOENT);
	check_contains(err.message, "cannot execute the worker's program 'pyton3': No such file or directory");
}

static void test_shell_that_finds_no_program_says_it_in_setup(void **state)
{
	struct file_rig *rig = *state;
	char **argv = NULL;
	assert_int_equal(launch_command_argv("no-such-program --x='1'", &argv), 0);
	rig->worker.kind = LAUNCH_PROGRAM;
	rig->worker.argv = (const char *const *)argv;
	file_rig_open(rig);
	file_rig_await_setup_failure(rig);
	check_contains(rig->setup_message, "exit 127: ");
	check_contains(rig->setup_message, "not found");
	gd_pool_close(rig->pool, NULL, 0, NULL);
	rig->pool = NULL;
	free(argv);
}

/* ---- In the middle of a file -------------------------------------------- */

static void test_exit_in_a_file_is_reported_with_code_and_last_line(void **state)
{
	struct file_rig *rig = rig_of(state, "good");
	assert_string_equal(run_then_another(rig, "exit3")->message, "exit 3: out of ideas");
	assert_int_equal(check_occurrences(file_rig_read(rig, "heard"), "\"setup\""), 2);
}

static void test_crash_in_a_file_is_reported_with_its_signal(void **state)
{
	assert_string_equal(run_then_another(rig_of(state, "good"), "segv")->message, "SIGSEGV");
}

static void test_answer_with_a_wrong_id_is_an_error(void **state)
{
	struct file_rig *rig = rig_of(state, "good");
	assert_string_equal(
		run_then_another(rig, "wrong-id")->message, "it answered task 70 while it was working on task 0");
	assert_int_equal(check_occurrences(file_rig_read(rig, "heard"), "\"setup\""), 2);
}

static void test_second_answer_is_reported_and_does_not_fail_the_next_file(void **state)
{
	struct file_rig *rig = rig_of(state, "good");
	assert_string_equal(run_then_another(rig, "twice")->message, "");
	assert_true(rig->ends[0].seconds == 12.5);
	check_contains(rig->note.warning, "its program answered task 0 twice");
	assert_true(rig->note.loading_ns > 0);
	assert_int_equal(check_occurrences(file_rig_read(rig, "heard"), "\"setup\""), 2);
}

static void test_broken_answer_is_shown(void **state)
{
	check_contains(run_then_another(rig_of(state, "good"), "broken")->message,
		"it is not a JSON object: {\"id\":1,\"ok\":tru");
}

static void test_answer_of_ten_megabytes_is_an_error(void **state)
{
	check_contains(run_then_another(rig_of(state, "good"), "long")->message,
		"it printed a line of more than 1048576 bytes: {xxx");
}

static void test_answer_without_an_end_is_an_error(void **state)
{
	check_contains(run_then_another(rig_of(state, "good"), "endless")->message,
		"it printed a line of more than 1048576 bytes: {\"id\":0,");
}

static void test_program_that_gives_up_is_replaced(void **state)
{
	struct file_rig *rig = rig_of(state, "good");
	assert_string_equal(run_then_another(rig, "gives-up")->message, "CUDA is gone");
	assert_int_equal(check_occurrences(file_rig_read(rig, "heard"), "\"setup\""), 2);
}

static void test_program_that_closes_its_output_is_replaced(void **state)
{
	struct file_rig *rig = rig_of(state, "good");
	assert_string_equal(run_then_another(rig, "close")->message, "it closed its standard output but did not exit");
	assert_true(file_rig_named_gone(rig, "hangs"));
}

static void run_hang(struct file_rig *rig, const char *name, int grace_ms)
{
	rig->options.task_timeout_ms = 1000;
	rig->options.grace_ms = grace_ms;
	file_rig_open(rig);
	file_rig_submit(rig, name, -1);
	file_rig_await(rig, 1);
	assert_true(rig->ends[0].timed_out);
	assert_true(file_rig_named_gone(rig, "hangs"));
	file_rig_submit(rig, "fine", -1);
	file_rig_await(rig, 2);
	file_rig_close(rig);
	/* More, if the machine is so busy that the second file times out, too. */
	assert_true(check_occurrences(file_rig_read(rig, "heard"), "\"setup\"") >= 2);
}

static void test_program_that_hangs_is_ended_at_the_timeout_and_a_fresh_one_goes_on(void **state)
{
	run_hang(rig_of(state, "good"), "hang", FILE_RIG_WAIT_MS);
}

static void test_program_that_hangs_and_does_not_listen_is_killed(void **state)
{
	run_hang(rig_of(state, "good"), "hang-deaf", 50);
}

/* More than fits in a pipe, to a program that does not read: neither side waits forever. */
static void test_program_that_does_not_read_its_input_causes_no_deadlock(void **state)
{
	struct file_rig *rig = rig_of(state, "deaf");
	static char value[50000];
	memset(value, 'v', sizeof(value) - 1);
	/* In JSON that is six times as long. */
	for (size_t i = 0; i < sizeof(value) - 1; i += 2)
		value[i] = '\x01';
	static const struct gd_setting settings[] = {{.key = "large", .value = value}};
	rig->worker.settings = settings;
	rig->worker.num_settings = 1;
	rig->worker.ready_timeout_ms = 500;
	check_contains(fail_to_set_up(rig), "it was not ready after 0.5 s");
}

static void test_worker_killed_leaves_no_process_of_its_program(void **state)
{
	struct file_rig *rig = rig_of(state, "good");
	file_rig_open(rig);
	file_rig_submit(rig, "children", -1);
	pid_t speaker = (pid_t)file_rig_await_number(rig, "hangs");
	pid_t child = (pid_t)file_rig_await_number(rig, "child");
	pid_t other = (pid_t)file_rig_await_number(rig, "other");
	struct gd_worker_stats stats;
	assert_int_equal(gd_pool_worker_stats(rig->pool, 0, &stats, sizeof(stats)), 0);
	assert_int_equal(kill((pid_t)stats.pid, SIGKILL), 0);
	file_rig_await(rig, 1);
	assert_int_not_equal(rig->ends[0].failure, GD_FAILURE_NONE);
	assert_true(file_rig_gone(speaker));
	assert_true(file_rig_gone(child));
	assert_true(file_rig_gone(other));
	file_rig_close(rig);
}

static void test_closing_in_the_middle_of_a_file_leaves_no_process(void **state)
{
	struct file_rig *rig = rig_of(state, "good");
	rig->options.grace_ms = 200;
	file_rig_open(rig);
	file_rig_submit(rig, "children", -1);
	pid_t speaker = (pid_t)file_rig_await_number(rig, "hangs");
	pid_t child = (pid_t)file_rig_await_number(rig, "child");
	pid_t other = (pid_t)file_rig_await_number(rig, "other");
	file_rig_close(rig);
	assert_int_not_equal(rig->ends[0].failure, GD_FAILURE_NONE);
	assert_true(file_rig_gone(speaker));
	assert_true(file_rig_gone(child));
	assert_true(file_rig_gone(other));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		file_rig_test(test_program_is_set_up_once_and_answers_each_file),
		file_rig_test(test_failure_of_a_file_whose_path_is_not_utf8_says_so),
		file_rig_test(test_file_that_fails_does_not_affect_other_files),
		file_rig_test(test_file_that_fails_without_a_reason_says_so),
		file_rig_test(test_rubbish_before_and_among_the_lines_does_no_harm),
		file_rig_test(test_messages_of_unknown_type_are_ignored),
		file_rig_test(test_program_that_leaves_between_files_is_started_again),
		file_rig_test(test_error_in_setup_is_reported),
		file_rig_test(test_program_that_is_never_ready_is_given_up),
		file_rig_test(test_program_that_does_not_even_read_is_given_up),
		file_rig_test(test_program_that_ends_in_its_setup_is_reported_with_its_last_line),
		file_rig_test(test_answer_before_ready_is_an_error),
		file_rig_test(test_broken_line_in_setup_is_shown),
		file_rig_test(test_missing_program_is_found_before_the_start),
		file_rig_test(test_shell_that_finds_no_program_says_it_in_setup),
		file_rig_test(test_exit_in_a_file_is_reported_with_code_and_last_line),
		file_rig_test(test_crash_in_a_file_is_reported_with_its_signal),
		file_rig_test(test_answer_with_a_wrong_id_is_an_error),
		file_rig_test(test_second_answer_is_reported_and_does_not_fail_the_next_file),
		file_rig_test(test_broken_answer_is_shown),
		file_rig_test(test_answer_of_ten_megabytes_is_an_error),
		file_rig_test(test_answer_without_an_end_is_an_error),
		file_rig_test(test_program_that_gives_up_is_replaced),
		file_rig_test(test_program_that_closes_its_output_is_replaced),
		file_rig_test(test_program_that_hangs_is_ended_at_the_timeout_and_a_fresh_one_goes_on),
		file_rig_test(test_program_that_hangs_and_does_not_listen_is_killed),
		file_rig_test(test_program_that_does_not_read_its_input_causes_no_deadlock),
		file_rig_test(test_worker_killed_leaves_no_process_of_its_program),
		file_rig_test(test_closing_in_the_middle_of_a_file_leaves_no_process),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
