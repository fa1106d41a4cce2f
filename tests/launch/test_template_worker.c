/* SPDX-License-Identifier: MIT */
/* A command per file: what it is given, how it ends, and what it leaves behind. */
#include "launch_lab.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The file's text is a script: `sh FILE` in the folder of the file. */
static const char *const shell[] = {"/bin/sh", "{file}", "{output}", NULL};

static struct lab *lab_of(void **state, const char *const *argv)
{
	struct lab *lab = *state;
	lab->worker.kind = LAUNCH_TEMPLATE;
	lab->worker.argv = argv;
	return lab;
}

static const struct lab_end *run_script(struct lab *lab, const char *script)
{
	lab_write(lab, "job", script);
	return lab_run_one(lab, "job");
}

static void test_names_of_any_kind_reach_the_command_as_one_argument(void **state)
{
	static const char *const argv[] = {"/bin/sh", "-c", "printf '<%s>' \"$@\" > \"$0\"/said", "{output}", "{file}",
		"{stem}", "{name}", "{gpu}", "{seed}", "{beam}", "a  b", "", NULL};
	static const struct gd_setting settings[] = {{"beam", "5"}};
	struct lab *lab = lab_of(state, argv);
	lab->worker.settings = settings;
	lab->worker.num_settings = 1;
	const char *name = "-n \"x'\n$(id)\xff*.wav";
	const struct lab_end *end = lab_run_one(lab, name);
	assert_string_equal(end->message, "");
	assert_int_equal(end->failure, GD_FAILURE_NONE);
	char expected[1024];
	snprintf(
		expected, sizeof(expected), "<%s/%s><-n \"x'\n$(id)\xff*><%s><0><42><5><a  b><>", lab->dir, name, name);
	assert_string_equal(lab_read(lab, "said"), expected);
}

static void test_seconds_of_the_file_are_those_of_the_result(void **state)
{
	static const char *const argv[] = {"true", NULL};
	struct lab *lab = lab_of(state, argv);
	lab_open(lab);
	lab_submit(lab, "a", 12.5);
	lab_submit(lab, "b", -1);
	lab_await(lab, 2);
	lab_close(lab);
	assert_true(lab->ends[0].seconds == 12.5);
	assert_true(lab->ends[1].seconds == -1);
}

static void test_failure_tells_exit_code_and_last_line_of_stderr(void **state)
{
	const struct lab_end *end =
		run_script(lab_of(state, shell), "echo first >&2; printf 'it \\033[1mbroke\\n\\n' >&2; exit 3");
	assert_int_equal(end->failure, GD_FAILED);
	lab_assert_contains(end->message, "exit 3: it \xEF\xBF\xBD[1mbroke");
	assert_null(strstr(end->message, "first"));
}

static void test_failure_without_words_tells_the_exit_code(void **state)
{
	assert_string_equal(run_script(lab_of(state, shell), "exit 77")->message, "exit 77");
}

static void test_failure_after_megabytes_of_stderr_tells_the_last_line(void **state)
{
	const struct lab_end *end = run_script(
		lab_of(state, shell), "head -c 3000000 /dev/zero | tr '\\0' x >&2; echo >&2; echo the end >&2; exit 1");
	assert_string_equal(end->message, "exit 1: the end");
}

static void test_signal_is_told_by_name(void **state)
{
	assert_string_equal(run_script(lab_of(state, shell), "kill -SEGV $$")->message, "SIGSEGV");
}

static void test_kill_is_told(void **state)
{
	lab_assert_contains(run_script(lab_of(state, shell), "echo here >&2; kill -9 $$")->message,
		"SIGKILL (perhaps the kernel's, for lack of memory): here");
}

static void test_input_is_empty(void **state)
{
	struct lab *lab = lab_of(state, shell);
	assert_string_equal(run_script(lab, "cat > \"$1\"/input; echo done >> \"$1\"/input")->message, "");
	assert_string_equal(lab_read(lab, "input"), "done\n");
}

static void test_program_that_cannot_be_executed_is_said(void **state)
{
	static const char *const argv[] = {"{file}", NULL};
	const struct lab_end *end = lab_run_one(lab_of(state, argv), "plain");
	lab_assert_contains(end->message, "plain' could not be executed: Permission denied");
}

static void assert_check_fails(struct lab *lab, const char *const *argv, const char *words)
{
	lab->worker.argv = argv;
	struct gd_error err = {0};
	assert_true(launch_worker_check(&lab->worker, &err) < 0);
	lab_assert_contains(err.message, words);
}

static void test_mistakes_are_found_before_anything_starts(void **state)
{
	struct lab *lab = lab_of(state, NULL);
	assert_check_fails(lab, (const char *const[]){NULL}, "the command is empty");
	assert_check_fails(lab, (const char *const[]){"whisper-clli", "{file}", NULL},
		"'whisper-clli' cannot be executed: No such file or directory");
	assert_check_fails(lab, (const char *const[]){"/etc/passwd", NULL}, "Permission denied");
	assert_check_fails(lab, (const char *const[]){"/tmp", NULL}, "Is a directory");
	assert_check_fails(lab, (const char *const[]){"cat", "{fil}", NULL}, "did you mean {file}?");
}

static void test_what_a_command_leaves_behind_ends_with_it(void **state)
{
	struct lab *lab = lab_of(state, shell);
	lab_write(lab, "job",
		"sleep 1000 & echo $! > \"$1\"/same; setsid sh -c 'echo $$ > \"$1\"/other; exec sleep 1000' x \"$1\" &\n"
		"while ! [ -s \"$1\"/other ]; do sleep 0.01; done");
	lab_open(lab);
	lab_submit(lab, "job", -1);
	lab_await(lab, 1);
	assert_string_equal(lab->ends[0].message, "");
	/* While the worker lives: with its end everything would end. */
	assert_true(lab_gone((pid_t)atoi(lab_read(lab, "same"))));
	assert_true(lab_gone((pid_t)atoi(lab_read(lab, "other"))));
	lab_close(lab);
}

static void test_command_that_hangs_is_told_to_end_when_its_time_is_over(void **state)
{
	struct lab *lab = lab_of(state, shell);
	lab->options.task_timeout_ms = 1000;
	lab->options.grace_ms = LAB_WAIT_MS;
	lab_write(lab, "hang",
		"trap 'echo told > \"$1\"/told; exit 0' TERM; echo > \"$1\"/trapped; while :; do sleep 0.01; done");
	lab_open(lab);
	lab_submit(lab, "hang", -1);
	lab_await(lab, 1);
	assert_true(lab->ends[0].timed_out);
	struct gd_worker_stats before, after;
	assert_int_equal(gd_pool_worker_stats(lab->pool, 0, &before), 0);
	/* The worker itself stays. */
	lab_submit(lab, "empty", -1);
	lab_await(lab, 2);
	assert_int_equal(gd_pool_worker_stats(lab->pool, 0, &after), 0);
	assert_int_equal(after.pid, before.pid);
	lab_close(lab);
	/* Under heavy load its time may have been over before it had begun. */
	if (*lab_read(lab, "trapped"))
		assert_string_equal(lab_read(lab, "told"), "told\n");
	assert_int_equal(lab->ends[1].failure, GD_FAILURE_NONE);
}

static void test_command_that_does_not_listen_is_killed_with_all_it_started(void **state)
{
	struct lab *lab = lab_of(state, shell);
	lab->options.task_timeout_ms = 500;
	lab->options.grace_ms = 50;
	lab_write(lab, "deaf",
		"trap '' TERM; setsid sleep 1000 & echo $! > \"$1\"/child; echo $$ > \"$1\"/self\n"
		"while :; do sleep 1; done");
	lab_open(lab);
	lab_submit(lab, "deaf", -1);
	lab_await(lab, 1);
	assert_true(lab->ends[0].timed_out);
	lab_submit(lab, "empty", -1);
	lab_await(lab, 2);
	assert_int_equal(lab->ends[1].failure, GD_FAILURE_NONE);
	lab_close(lab);
	/* Under heavy load it may have been killed before it wrote its number. */
	if (*lab_read(lab, "self"))
		assert_true(lab_gone((pid_t)atoi(lab_read(lab, "self"))));
	if (*lab_read(lab, "child"))
		assert_true(lab_gone((pid_t)atoi(lab_read(lab, "child"))));
}

static void test_worker_killed_leaves_no_process_of_its_command(void **state)
{
	struct lab *lab = lab_of(state, shell);
	lab_write(lab, "job",
		"setsid sleep 1000 & echo $! > \"$1\"/child; echo $$ > \"$1\"/self; echo $PPID > \"$1\"/worker\n"
		"exec sleep 1000");
	lab_open(lab);
	lab_submit(lab, "job", -1);
	pid_t worker = (pid_t)lab_await_number(lab, "worker");
	pid_t self = (pid_t)lab_await_number(lab, "self");
	pid_t child = (pid_t)lab_await_number(lab, "child");
	assert_int_equal(kill(worker, SIGKILL), 0);
	lab_await(lab, 1);
	assert_int_not_equal(lab->ends[0].failure, GD_FAILURE_NONE);
	assert_true(lab_gone(self));
	assert_true(lab_gone(child));
	lab_close(lab);
}

#define lab_test(f) cmocka_unit_test_setup_teardown(f, lab_setup, lab_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		lab_test(test_names_of_any_kind_reach_the_command_as_one_argument),
		lab_test(test_seconds_of_the_file_are_those_of_the_result),
		lab_test(test_failure_tells_exit_code_and_last_line_of_stderr),
		lab_test(test_failure_without_words_tells_the_exit_code),
		lab_test(test_failure_after_megabytes_of_stderr_tells_the_last_line),
		lab_test(test_signal_is_told_by_name),
		lab_test(test_kill_is_told),
		lab_test(test_input_is_empty),
		lab_test(test_program_that_cannot_be_executed_is_said),
		lab_test(test_mistakes_are_found_before_anything_starts),
		lab_test(test_what_a_command_leaves_behind_ends_with_it),
		lab_test(test_command_that_hangs_is_told_to_end_when_its_time_is_over),
		lab_test(test_command_that_does_not_listen_is_killed_with_all_it_started),
		lab_test(test_worker_killed_leaves_no_process_of_its_command),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
