/* SPDX-License-Identifier: MIT */
/* A command per file: its arguments, its end, and what it leaves behind. */
#include "file_rig.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* The file's text is a script: `sh FILE` in the folder of the file. */
static const char *const shell[] = {"/bin/sh", "{file}", "{output}", NULL};

static struct file_rig *rig_of(void **state, const char *const *argv)
{
	struct file_rig *rig = *state;
	rig->worker.kind = LAUNCH_TEMPLATE;
	rig->worker.argv = argv;
	return rig;
}

static const struct file_end *run_script(struct file_rig *rig, const char *script)
{
	file_rig_write(rig, "job", script);
	return file_rig_run_one(rig, "job");
}

static void test_names_of_any_kind_reach_the_command_as_one_argument(void **state)
{
	static const char *const argv[] = {"/bin/sh", "-c", "printf '<%s>' \"$@\" > \"$0\"/said", "{output}", "{file}",
		"./{stem}", "./{name}", "{gpu}", "{seed}", "{beam}", "a  b", "", NULL};
	static const struct gd_setting settings[] = {{.key = "beam", .value = "5"}};
	struct file_rig *rig = rig_of(state, argv);
	rig->worker.settings = settings;
	rig->worker.num_settings = 1;
	const char *name = "-n \"x'\n$(id)\xff*.wav";
	const struct file_end *end = file_rig_run_one(rig, name);
	assert_string_equal(end->message, "");
	assert_int_equal(end->failure, GD_FAILURE_NONE);
	char expected[1024];
	snprintf(expected, sizeof(expected), "<%s/%s><./-n \"x'\n$(id)\xff*><./%s><0><42><5><a  b><>", rig->dir, name,
		name);
	assert_string_equal(file_rig_read(rig, "said"), expected);
}

static void test_result_has_the_duration_of_the_file(void **state)
{
	static const char *const argv[] = {"true", NULL};
	struct file_rig *rig = rig_of(state, argv);
	file_rig_open(rig);
	file_rig_submit(rig, "a", 12.5);
	file_rig_submit(rig, "b", -1);
	file_rig_await(rig, 2);
	file_rig_close(rig);
	assert_true(rig->ends[0].seconds == 12.5);
	assert_true(rig->ends[1].seconds == -1);
}

static void test_failure_reports_exit_code_and_last_line_of_stderr(void **state)
{
	const struct file_end *end =
		run_script(rig_of(state, shell), "echo first >&2; printf 'it \\033[1mbroke\\n\\n' >&2; exit 3");
	assert_int_equal(end->failure, GD_FAILURE_ERROR);
	check_contains(end->message, "exit 3: it \xEF\xBF\xBD[1mbroke");
	assert_null(strstr(end->message, "first"));
}

static void test_failure_without_output_reports_the_exit_code(void **state)
{
	assert_string_equal(run_script(rig_of(state, shell), "exit 77")->message, "exit 77");
}

static void test_failure_after_megabytes_of_stderr_reports_the_last_line(void **state)
{
	const struct file_end *end = run_script(
		rig_of(state, shell), "head -c 3000000 /dev/zero | tr '\\0' x >&2; echo >&2; echo the end >&2; exit 1");
	assert_string_equal(end->message, "exit 1: the end");
}

static void test_signal_is_reported_by_name(void **state)
{
	assert_string_equal(run_script(rig_of(state, shell), "kill -SEGV $$")->message, "SIGSEGV");
}

static void test_sigkill_is_reported_with_its_likely_cause_and_the_last_line(void **state)
{
	check_contains(run_script(rig_of(state, shell), "echo here >&2; kill -9 $$")->message,
		"SIGKILL (perhaps sent by the kernel because memory ran out): here");
}

static void test_standard_input_of_the_command_is_empty(void **state)
{
	struct file_rig *rig = rig_of(state, shell);
	assert_string_equal(run_script(rig, "cat > \"$1\"/input; echo done >> \"$1\"/input")->message, "");
	assert_string_equal(file_rig_read(rig, "input"), "done\n");
}

static void test_program_that_cannot_be_executed_is_reported(void **state)
{
	static const char *const argv[] = {"{file}", NULL};
	const struct file_end *end = file_rig_run_one(rig_of(state, argv), "plain");
	check_contains(end->message, "plain': Permission denied");
}

static void assert_check_fails(struct file_rig *rig, const char *const *argv, const char *words)
{
	rig->worker.argv = argv;
	struct gd_error err = {0};
	assert_true(launch_worker_check(&rig->worker, &err) < 0);
	check_contains(err.message, words);
}

static void test_mistakes_are_found_before_anything_starts(void **state)
{
	struct file_rig *rig = rig_of(state, NULL);
	assert_check_fails(rig, (const char *const[]){NULL}, "the command is empty");
	assert_check_fails(rig, (const char *const[]){"whisper-clli", "{file}", NULL},
		"cannot execute the command 'whisper-clli': No such file or directory");
	assert_check_fails(rig, (const char *const[]){"/etc/passwd", NULL}, "Permission denied");
	assert_check_fails(rig, (const char *const[]){"/tmp", NULL}, "Is a directory");
	assert_check_fails(rig, (const char *const[]){"cat", "{fil}", NULL}, "did you mean {file}?");
}

static void test_what_a_command_leaves_behind_ends_with_it(void **state)
{
	struct file_rig *rig = rig_of(state, shell);
	file_rig_write(rig, "job",
		"sleep 1000 & echo $! > \"$1\"/same; setsid sh -c 'echo $$ > \"$1\"/other; exec sleep 1000' x \"$1\" &\n"
		"while ! [ -s \"$1\"/other ]; do sleep 0.01; done");
	file_rig_open(rig);
	file_rig_submit(rig, "job", -1);
	file_rig_await(rig, 1);
	assert_string_equal(rig->ends[0].message, "");
	/* Before the worker ends, which would end these processes, too. */
	assert_true(file_rig_named_gone(rig, "same"));
	assert_true(file_rig_named_gone(rig, "other"));
	file_rig_close(rig);
}

static void test_command_that_hangs_is_told_to_end_when_its_time_is_over(void **state)
{
	struct file_rig *rig = rig_of(state, shell);
	rig->options.task_timeout_ms = 3000; /* the next file must be in time */
	rig->options.grace_ms = FILE_RIG_WAIT_MS;
	file_rig_write(rig, "hang",
		"trap 'echo told > \"$1\"/told; exit 0' TERM; echo > \"$1\"/trapped; while :; do sleep 0.01; done");
	file_rig_open(rig);
	file_rig_submit(rig, "hang", -1);
	file_rig_await(rig, 1);
	assert_true(rig->ends[0].timed_out);
	struct gd_worker_stats before, after;
	assert_int_equal(gd_pool_worker_stats(rig->pool, 0, &before, sizeof(before)), 0);
	/* The worker itself survives. */
	file_rig_submit(rig, "empty", -1);
	file_rig_await(rig, 2);
	assert_int_equal(gd_pool_worker_stats(rig->pool, 0, &after, sizeof(after)), 0);
	assert_int_equal(after.pid, before.pid);
	file_rig_close(rig);
	/* Under heavy load it may have timed out before it began. */
	if (*file_rig_read(rig, "trapped"))
		assert_string_equal(file_rig_read(rig, "told"), "told\n");
	assert_int_equal(rig->ends[1].failure, GD_FAILURE_NONE);
}

static void test_command_that_does_not_listen_is_killed_with_all_it_started(void **state)
{
	struct file_rig *rig = rig_of(state, shell);
	rig->options.task_timeout_ms = 3000;
	rig->options.grace_ms = 50;
	file_rig_write(rig, "deaf",
		"trap '' TERM; setsid sleep 1000 & echo $! > \"$1\"/child; echo $$ > \"$1\"/self\n"
		"while :; do sleep 1; done");
	file_rig_open(rig);
	file_rig_submit(rig, "deaf", -1);
	file_rig_await(rig, 1);
	assert_true(rig->ends[0].timed_out);
	file_rig_submit(rig, "empty", -1);
	file_rig_await(rig, 2);
	assert_int_equal(rig->ends[1].failure, GD_FAILURE_NONE);
	file_rig_close(rig);
	/* Under heavy load it may have been killed before it wrote its number. */
	if (*file_rig_read(rig, "self"))
		assert_true(file_rig_named_gone(rig, "self"));
	if (*file_rig_read(rig, "child"))
		assert_true(file_rig_named_gone(rig, "child"));
}

static void test_worker_killed_leaves_no_process_of_its_command(void **state)
{
	struct file_rig *rig = rig_of(state, shell);
	file_rig_write(rig, "job",
		"setsid sleep 1000 & echo $! > \"$1\"/child; echo $$ > \"$1\"/self; echo $PPID > \"$1\"/worker\n"
		"exec sleep 1000");
	file_rig_open(rig);
	file_rig_submit(rig, "job", -1);
	pid_t worker = (pid_t)file_rig_await_number(rig, "worker");
	pid_t self = (pid_t)file_rig_await_number(rig, "self");
	pid_t child = (pid_t)file_rig_await_number(rig, "child");
	assert_int_equal(kill(worker, SIGKILL), 0);
	file_rig_await(rig, 1);
	assert_int_not_equal(rig->ends[0].failure, GD_FAILURE_NONE);
	assert_true(file_rig_gone(self));
	assert_true(file_rig_gone(child));
	file_rig_close(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		file_rig_test(test_names_of_any_kind_reach_the_command_as_one_argument),
		file_rig_test(test_result_has_the_duration_of_the_file),
		file_rig_test(test_failure_reports_exit_code_and_last_line_of_stderr),
		file_rig_test(test_failure_without_output_reports_the_exit_code),
		file_rig_test(test_failure_after_megabytes_of_stderr_reports_the_last_line),
		file_rig_test(test_signal_is_reported_by_name),
		file_rig_test(test_sigkill_is_reported_with_its_likely_cause_and_the_last_line),
		file_rig_test(test_standard_input_of_the_command_is_empty),
		file_rig_test(test_program_that_cannot_be_executed_is_reported),
		file_rig_test(test_mistakes_are_found_before_anything_starts),
		file_rig_test(test_what_a_command_leaves_behind_ends_with_it),
		file_rig_test(test_command_that_hangs_is_told_to_end_when_its_time_is_over),
		file_rig_test(test_command_that_does_not_listen_is_killed_with_all_it_started),
		file_rig_test(test_worker_killed_leaves_no_process_of_its_command),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
