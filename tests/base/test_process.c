/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/process.h"

struct kernel_action {
	void (*handler)(int);
	unsigned long flags;
	void *restorer;
	uint64_t mask[2];
};

static int ignore(int signal)
{
	struct kernel_action a = {.handler = SIG_IGN};
	return (int)syscall(SYS_rt_sigaction, signal, &a, NULL, 8);
}

/* A line of /proc/self/status: a bit for each signal. */
static uint64_t mask_of(const char *name)
{
	char line[256];
	uint64_t mask = UINT64_MAX;
	FILE *f = fopen("/proc/self/status", "re");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, name, strlen(name)) == 0)
			mask = strtoull(line + strlen(name) + 1, NULL, 16);
	if (f)
		fclose(f);
	return mask;
}

/* In a process of its own: its signals are not the test's. */
static int in_child(int (*fn)(void))
{
	int status;
	pid_t pid = fork();
	if (pid == 0)
		_exit(fn());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int ignore_all_and_reset(void)
{
	for (int s = 1; s < NSIG; s++)
		if (ignore(s) < 0 && s != SIGKILL && s != SIGSTOP)
			return 1;
	if (!(mask_of("SigIgn") & UINT64_C(3) << 31))
		return 2;
	process_reset_signals();
	return mask_of("SigIgn") == 0 ? 0 : 3;
}

static void test_no_signal_stays_ignored_not_even_the_c_librarys(void **state)
{
	(void)state;
	assert_int_equal(in_child(ignore_all_and_reset), 0);
}

static void *nothing(void *argument)
{
	pause();
	return argument;
}

/* With threads, setgid() has each of them woken by signal 33, which would end us at its default. */
static int reset_and_change_group_with_threads(void)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, nothing, NULL) != 0)
		return 1;
	process_reset_signals();
	return setgid(getgid()) == 0 ? 0 : 2;
}

static void test_handlers_of_the_c_library_stay(void **state)
{
	(void)state;
	assert_int_equal(in_child(reset_and_change_group_with_threads), 0);
}

/* ---- Signals to others ------------------------------------------------------- */

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

/* As for a process whose number was given to another one after it was looked at. */
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

/* Both before and beyond what is read of an environment at once; a name that only ends the same is another one. */
static void test_processes_are_found_by_a_variable(void **state)
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

static void test_descendants_get_the_signal_and_nobody_else(void **state)
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
		cmocka_unit_test(test_no_signal_stays_ignored_not_even_the_c_librarys),
		cmocka_unit_test(test_handlers_of_the_c_library_stay),
		cmocka_unit_test(test_a_later_process_of_the_same_number_gets_no_signal),
		cmocka_unit_test(test_processes_are_found_by_a_variable),
		cmocka_unit_test(test_descendants_get_the_signal_and_nobody_else),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
