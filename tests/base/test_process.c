/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/process.h"

static pid_t start_waiting(char *const *environment)
{
	pid_t pid = fork();
	if (pid == 0) {
		execle("/bin/sleep", "sleep", "1000", (char *)NULL, environment);
		_exit(127);
	}
	assert_true(pid > 0);
	return pid;
}

static void end(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* As for a process whose PID was reused after it was examined. */
static void test_a_later_process_of_the_same_number_gets_no_signal(void **state)
{
	(void)state;
	char *const environment[] = {NULL};
	struct process_info i;
	int status;
	pid_t pid = start_waiting(environment);
	assert_int_equal(process_info(pid, &i), 0);
	assert_int_equal(process_signal(pid, i.start_ticks - 1, SIGKILL), -ESRCH);
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	assert_int_equal(process_signal(pid, i.start_ticks, SIGTERM), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WTERMSIG(status), SIGTERM);
	assert_int_equal(process_signal(pid, i.start_ticks, SIGKILL), -ESRCH);
}

struct asked {
	pid_t one, other;
	char one_value[PROCESS_MARK_ROOM];
	int others;
};

static int ask(void *context, pid_t pid, const char *value)
{
	struct asked *a = context;
	if (pid == a->other)
		a->others++;
	if (pid != a->one)
		return 0;
	snprintf(a->one_value, sizeof(a->one_value), "%s", value);
	return SIGTERM;
}

/* Both within and beyond the first read of an environment; a name with only the same suffix does not match. */
static void test_processes_are_found_by_a_variable_of_their_environment(void **state)
{
	(void)state;
	static char large[100000], larger[65536];
	memset(large, 'x', sizeof(large) - 1);
	memcpy(large, "LARGE=", 6);
	for (size_t size = 65300; size < sizeof(larger); size += 20) {
		memset(larger, 'y', sizeof(larger));
		memcpy(larger, "LARGER=", 7);
		larger[size] = '\0';
		char mark[] = "GD_TEST_MARK=a-value", before[] = "XGD_TEST_MARK=a-value", after[] = "GD_TEST_MARKS=a";
		char *const marked[] = {larger, mark, large, NULL};
		char *const other[] = {larger, before, after, large, NULL};
		struct asked a = {.one = start_waiting(marked), .other = start_waiting(other)};
		int status = 0;
		/* It has that environment from its exec on. */
		while (!*a.one_value)
			assert_int_equal(process_signal_marked("GD_TEST_MARK", ask, &a), 0);
		assert_string_equal(a.one_value, "a-value");
		assert_int_equal(a.others, 0);
		assert_int_equal(waitpid(a.one, &status, 0), a.one);
		assert_int_equal(WTERMSIG(status), SIGTERM);
		end(a.other);
	}
}

static void test_only_descendants_get_the_signal(void **state)
{
	(void)state;
	char *const environment[] = {NULL};
	int ready[2], status;
	assert_int_equal(pipe(ready), 0);
	pid_t outside = start_waiting(environment);
	pid_t root = fork();
	if (root == 0) {
		pid_t child = fork();
		if (child == 0) {
			pid_t grandchild = start_waiting(environment);
			if (write(ready[1], &grandchild, sizeof(grandchild)) < 0)
				_exit(1);
			pause();
		}
		waitpid(child, &status, 0);
		_exit(WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	}
	pid_t grandchild;
	assert_int_equal(read(ready[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
	assert_int_equal(process_signal_descendants(root, SIGTERM), 2);
	assert_int_equal(waitpid(root, &status, 0), root);
	assert_int_equal(WEXITSTATUS(status), SIGTERM);
	assert_int_equal(waitpid(outside, &status, WNOHANG), 0);
	end(outside);
	close(ready[0]);
	close(ready[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_later_process_of_the_same_number_gets_no_signal),
		cmocka_unit_test(test_processes_are_found_by_a_variable_of_their_environment),
		cmocka_unit_test(test_only_descendants_get_the_signal),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
