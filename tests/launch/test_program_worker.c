/* SPDX-License-Identifier: MIT */
/* A persistent program: what it is told, and everything that it can do wrong. */
#include "launch_lab.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *argv_of[4];

static struct lab *lab_of(void **state, const char *mode)
{
	struct lab *lab = *state;
	argv_of[0] = getenv("TEST_SPEAKER");
	argv_of[1] = mode;
	argv_of[2] = lab->dir;
	assert_non_null(argv_of[0]);
	lab->worker.kind = LAUNCH_PROGRAM;
	lab->worker.argv = argv_of;
	return lab;
}

/* This file, and one after it that must go well, whatever became of the first. */
static const struct lab_end *run_then_another(struct lab *lab, const char *name)
{
	lab_open(lab);
	lab_submit(lab, name, -1);
	lab_await(lab, 1);
	lab_submit(lab, "fine", -1);
	lab_await(lab, 2);
	lab_close(lab);
	assert_string_equal(lab->ends[1].message, "");
	assert_true(lab->ends[1].seconds == 12.5);
	assert_true(lab_gone((pid_t)atoi(lab_read(lab, "speaker"))));
	return &lab->ends[0];
}

static size_t count(const char *text, const char *word)
{
	size_t n = 0;
	for (const char *p = text; (p = strstr(p, word)); p++)
		n++;
	return n;
}

/* ---- As it should be ---------------------------------------------------- */

static void test_program_is_set_up_once_and_answers_each_file(void **state)
{
	struct lab *lab = lab_of(state, "good");
	static const struct gd_setting settings[] = {{"model_size", "base"}, {"language", "en"}};
	lab->worker.settings = settings;
	lab->worker.num_settings = 2;
	lab_open(lab);
	lab_submit(lab, "a b\"\n.png", -1);
	lab_submit(lab, "plain", 3.5);
	lab_submit(lab, "\xff.png", -1);
	for (int i = 0; i < 100; i++)
		lab_submit(lab, "more", -1);
	lab_await(lab, 103);
	lab_close(lab);
	for (size_t i = 0; i < 103; i++)
		assert_string_equal(lab->ends[i].message, "");
	assert_true(lab->ends[0].seconds == 12.5);
	assert_true(lab->ends[1].seconds == 3.5); /* the file's own, where the program tells none */
	char expected[2048];
	snprintf(expected, sizeof(expected),
		"{\"type\":\"setup\",\"gpu\":0,\"seed\":42,\"settings\":{\"model_size\":\"base\",\"language\":\"en\"},"
		"\"device\":0}\n"
		"{\"type\":\"task\",\"id\":0,\"file\":\"%s/a b\\\"\\n.png\",\"output_dir\":\"%s\"}\n",
		lab->dir, lab->dir);
	assert_memory_equal(lab_read(lab, "heard"), expected, strlen(expected));
	assert_int_equal(count(lab_read(lab, "heard"), "\"setup\""), 1);
	assert_int_equal(count(lab_read(lab, "heard"), "\"file_b64\""), 1);
	assert_int_equal(atoi(lab_read(lab, "left")), 1); /* at the end of its input, not killed */
}

static void test_file_that_fails_costs_nothing_but_itself(void **state)
{
	struct lab *lab = lab_of(state, "good");
	const struct lab_end *end = run_then_another(lab, "fails");
	assert_int_equal(end->failure, GD_FAILED);
	assert_string_equal(end->message, "not \xc3\xa0 picture");
	assert_int_equal(count(lab_read(lab, "heard"), "\"setup\""), 1);
}

static void test_file_that_fails_without_a_reason_says_so(void **state)
{
	assert_string_equal(run_then_another(lab_of(state, "good"), "refuses")->message, "the program said no reason");
}

static void test_rubbish_before_and_among_the_lines_is_no_harm(void **state)
{
	struct lab *lab = lab_of(state, "noisy");
	const struct lab_end *end = run_then_another(lab, "noisy");
	assert_string_equal(end->message, "");
	assert_int_equal(count(lab_read(lab, "heard"), "\"setup\""), 1);
}

static void test_messages_of_unknown_type_are_passed_over(void **state)
{
	assert_string_equal(run_then_another(lab_of(state, "chatty"), "one")->message, "");
}

static void test_program_that_leaves_between_files_is_started_again(void **state)
{
	struct lab *lab = lab_of(state, "leaves");
	lab_open(lab);
	for (size_t i = 0; i < 5; i++) {
		lab_submit(lab, "one", -1);
		lab_await(lab, i + 1);
		assert_string_equal(lab->ends[i].message, "");
		assert_true(lab_gone((pid_t)atoi(lab_read(lab, "speaker"))));
	}
	lab_close(lab);
	assert_int_equal(count(lab_read(lab, "heard"), "\"setup\""), 5);
}

/* ---- In its setup ------------------------------------------------------- */

static const char *fail_to_set_up(struct lab *lab)
{
	lab_open(lab);
	lab_await_setup_failure(lab);
	gd_close(lab->pool, NULL, NULL);
	lab->pool = NULL;
	assert_true(lab_gone((pid_t)atoi(lab_read(lab, "speaker"))));
	return lab->setup_message;
}

static void test_error_in_setup_is_told(void **state)
{
	struct lab *lab = lab_of(state, "refuses");
	lab_assert_contains(fail_to_set_up(lab), "speaker': no model \"x\" here");
}

static void test_program_that_is_never_ready_is_given_up(void **state)
{
	struct lab *lab = lab_of(state, "mute");
	lab->worker.ready_timeout_ms = 500;
	const char *words = fail_to_set_up(lab);
	lab_assert_contains(words, "it was not ready after 0.5 s (does it flush its output");
}

static void test_program_that_does_not_even_read_is_given_up(void **state)
{
	struct lab *lab = lab_of(state, "deaf");
	lab->worker.ready_timeout_ms = 500;
	lab_assert_contains(fail_to_set_up(lab), "it was not ready after 0.5 s");
}

static void test_program_that_ends_in_its_setup_is_told_with_its_last_line(void **state)
{
	lab_assert_contains(fail_to_set_up(lab_of(state, "gone")), "speaker': exit 4: no module named torch");
}

static void test_answer_before_ready_is_an_error(void **state)
{
	lab_assert_contains(fail_to_set_up(lab_of(state, "early")), "it answered before it was ready");
}

static void test_broken_line_in_setup_is_shown(void **state)
{
	lab_assert_contains(fail_to_set_up(lab_of(state, "broken")), "it is no JSON object: {\"type\":ready}");
}

static void test_program_that_is_not_there_is_found_before(void **state)
{
	struct lab *lab = lab_of(state, "good");
	argv_of[0] = "pyton3";
	struct gd_error err = {0};
	assert_int_equal(launch_worker_check(&lab->worker, &err), -ENOENT);
	lab_assert_contains(err.message, "'pyton3' cannot be executed: No such file or directory");
}

static void test_shell_that_finds_no_program_says_it_in_setup(void **state)
{
	struct lab *lab = *state;
	char **argv = NULL;
	assert_int_equal(launch_command_argv("no-such-program --x='1'", &argv), 0);
	lab->worker.kind = LAUNCH_PROGRAM;
	lab->worker.argv = (const char *const *)argv;
	lab_open(lab);
	lab_await_setup_failure(lab);
	lab_assert_contains(lab->setup_message, "exit 127: ");
	lab_assert_contains(lab->setup_message, "not found");
	gd_close(lab->pool, NULL, NULL);
	lab->pool = NULL;
	free(argv);
}

/* ---- In the middle of a file -------------------------------------------- */

static void test_death_in_a_file_is_told_with_code_and_last_line(void **state)
{
	struct lab *lab = lab_of(state, "good");
	assert_string_equal(run_then_another(lab, "exit3")->message, "exit 3: out of ideas");
	assert_int_equal(count(lab_read(lab, "heard"), "\"setup\""), 2);
}

static void test_crash_in_a_file_is_told_by_its_signal(void **state)
{
	assert_string_equal(run_then_another(lab_of(state, "good"), "segv")->message, "SIGSEGV");
}

static void test_answer_with_a_wrong_id_is_an_error(void **state)
{
	struct lab *lab = lab_of(state, "good");
	assert_string_equal(
		run_then_another(lab, "wrong-id")->message, "it answered for task 70, and was working on task 0");
	assert_int_equal(count(lab_read(lab, "heard"), "\"setup\""), 2);
}

static void test_broken_answer_is_shown(void **state)
{
	lab_assert_contains(run_then_another(lab_of(state, "good"), "broken")->message,
		"it is no JSON object: {\"id\":1,\"ok\":tru");
}

static void test_answer_of_ten_megabytes_is_an_error(void **state)
{
	lab_assert_contains(run_then_another(lab_of(state, "good"), "long")->message,
		"it said a line of more than 1048576 bytes: {xxx");
}

static void test_answer_without_an_end_is_an_error(void **state)
{
	lab_assert_contains(run_then_another(lab_of(state, "good"), "endless")->message,
		"it said a line of more than 1048576 bytes: {\"id\":0,");
}

static void test_program_that_gives_up_is_replaced(void **state)
{
	struct lab *lab = lab_of(state, "good");
	assert_string_equal(run_then_another(lab, "gives-up")->message, "CUDA is gone");
	assert_int_equal(count(lab_read(lab, "heard"), "\"setup\""), 2);
}

static void test_program_that_closes_its_output_is_replaced(void **state)
{
	struct lab *lab = lab_of(state, "good");
	assert_string_equal(run_then_another(lab, "close")->message, "it has closed its standard output and goes on");
	assert_true(lab_gone((pid_t)atoi(lab_read(lab, "hangs"))));
}

static void run_hang(struct lab *lab, const char *name, int grace_ms)
{
	lab->options.task_timeout_ms = 1000;
	lab->options.grace_ms = grace_ms;
	lab_open(lab);
	lab_submit(lab, name, -1);
	lab_await(lab, 1);
	assert_true(lab->ends[0].timed_out);
	assert_true(lab_gone((pid_t)atoi(lab_read(lab, "hangs"))));
	lab_submit(lab, "fine", -1);
	lab_await(lab, 2);
	lab_close(lab);
	/* More, where the machine is so busy that the second file's time is over, too. */
	assert_true(count(lab_read(lab, "heard"), "\"setup\"") >= 2);
}

static void test_program_that_hangs_is_ended_at_the_timeout_and_a_fresh_one_goes_on(void **state)
{
	run_hang(lab_of(state, "good"), "hang", LAB_WAIT_MS);
}

static void test_program_that_hangs_and_does_not_listen_is_killed(void **state)
{
	run_hang(lab_of(state, "good"), "hang-deaf", 50);
}

/* More than a pipe holds, to one that does not read: nobody waits for the other for ever. */
static void test_program_that_does_not_read_its_input_is_no_deadlock(void **state)
{
	struct lab *lab = lab_of(state, "deaf");
	static char value[50000];
	memset(value, 'v', sizeof(value) - 1);
	/* In JSON that is six times as long. */
	for (size_t i = 0; i < sizeof(value) - 1; i += 2)
		value[i] = '\x01';
	static const struct gd_setting settings[] = {{"large", value}};
	lab->worker.settings = settings;
	lab->worker.num_settings = 1;
	lab->worker.ready_timeout_ms = 500;
	lab_assert_contains(fail_to_set_up(lab), "it was not ready after 0.5 s");
}

static void test_worker_killed_leaves_no_process_of_its_program(void **state)
{
	struct lab *lab = lab_of(state, "good");
	lab_open(lab);
	lab_submit(lab, "children", -1);
	pid_t speaker = (pid_t)lab_await_number(lab, "hangs");
	pid_t child = (pid_t)lab_await_number(lab, "child");
	pid_t other = (pid_t)lab_await_number(lab, "other");
	struct gd_worker_stats stats;
	assert_int_equal(gd_pool_worker_stats(lab->pool, 0, &stats), 0);
	assert_int_equal(kill((pid_t)stats.pid, SIGKILL), 0);
	lab_await(lab, 1);
	assert_int_not_equal(lab->ends[0].failure, GD_FAILURE_NONE);
	assert_true(lab_gone(speaker));
	assert_true(lab_gone(child));
	assert_true(lab_gone(other));
	lab_close(lab);
}

static void test_closing_in_the_middle_of_a_file_leaves_no_process(void **state)
{
	struct lab *lab = lab_of(state, "good");
	lab->options.grace_ms = 200;
	lab_open(lab);
	lab_submit(lab, "children", -1);
	pid_t speaker = (pid_t)lab_await_number(lab, "hangs");
	pid_t child = (pid_t)lab_await_number(lab, "child");
	pid_t other = (pid_t)lab_await_number(lab, "other");
	lab_close(lab);
	assert_int_not_equal(lab->ends[0].failure, GD_FAILURE_NONE);
	assert_true(lab_gone(speaker));
	assert_true(lab_gone(child));
	assert_true(lab_gone(other));
}

#define lab_test(f) cmocka_unit_test_setup_teardown(f, lab_setup, lab_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		lab_test(test_program_is_set_up_once_and_answers_each_file),
		lab_test(test_file_that_fails_costs_nothing_but_itself),
		lab_test(test_file_that_fails_without_a_reason_says_so),
		lab_test(test_rubbish_before_and_among_the_lines_is_no_harm),
		lab_test(test_messages_of_unknown_type_are_passed_over),
		lab_test(test_program_that_leaves_between_files_is_started_again),
		lab_test(test_error_in_setup_is_told),
		lab_test(test_program_that_is_never_ready_is_given_up),
		lab_test(test_program_that_does_not_even_read_is_given_up),
		lab_test(test_program_that_ends_in_its_setup_is_told_with_its_last_line),
		lab_test(test_answer_before_ready_is_an_error),
		lab_test(test_broken_line_in_setup_is_shown),
		lab_test(test_program_that_is_not_there_is_found_before),
		lab_test(test_shell_that_finds_no_program_says_it_in_setup),
		lab_test(test_death_in_a_file_is_told_with_code_and_last_line),
		lab_test(test_crash_in_a_file_is_told_by_its_signal),
		lab_test(test_answer_with_a_wrong_id_is_an_error),
		lab_test(test_broken_answer_is_shown),
		lab_test(test_answer_of_ten_megabytes_is_an_error),
		lab_test(test_answer_without_an_end_is_an_error),
		lab_test(test_program_that_gives_up_is_replaced),
		lab_test(test_program_that_closes_its_output_is_replaced),
		lab_test(test_program_that_hangs_is_ended_at_the_timeout_and_a_fresh_one_goes_on),
		lab_test(test_program_that_hangs_and_does_not_listen_is_killed),
		lab_test(test_program_that_does_not_read_its_input_is_no_deadlock),
		lab_test(test_worker_killed_leaves_no_process_of_its_program),
		lab_test(test_closing_in_the_middle_of_a_file_leaves_no_process),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
