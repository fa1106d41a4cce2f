/* SPDX-License-Identifier: MIT */
/* A command ends if a file of another user costs too much. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/cost_limit.h"

#define ALLOW       "allow it"
#define LIMIT_MS    30
#define WORK_MS     10
#define TOO_LONG_MS 10000

static void use_cpu(clock_t ms)
{
	clock_t end = clock() + ms * (CLOCKS_PER_SEC / 1000);
	while (clock() < end)
		continue;
}

/* Runs the function in a process of its own. Returns its exit code; `words` gets what it wrote to standard error. */
static int run(void (*function)(void), char *words, size_t size)
{
	int ends[2], status;
	size_t length = 0;
	ssize_t n;
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		function();
		_exit(7);
	}
	close(ends[1]);
	while ((n = read(ends[0], words + length, size - 1 - length)) > 0)
		length += (size_t)n;
	words[length] = '\0';
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void compute_too_long(void)
{
	cost_limit_enable(LIMIT_MS * NS_PER_MS, SIZE_MAX / 2, ALLOW);
	cost_limit_start("bad\033[2Jname");
	use_cpu(TOO_LONG_MS);
}

static void test_computing_for_too_long_ends_with_a_message(void **state)
{
	char words[512];
	(void)state;
	assert_int_equal(run(compute_too_long, words, sizeof(words)), COST_LIMIT_EXIT);
	assert_string_equal(words,
		"gpuq: reading 'bad?[2Jname' takes too much CPU time, and other users may have written it; " ALLOW
		"\n");
}

static void stop_in_time(void)
{
	cost_limit_enable(LIMIT_MS * NS_PER_MS, SIZE_MAX / 2, ALLOW);
	for (int i = 0; i < 3 * LIMIT_MS / WORK_MS; i++) {
		cost_limit_start("name");
		use_cpu(WORK_MS);
		cost_limit_stop();
	}
}

static void compute_without_limit(void)
{
	cost_limit_start("name");
	use_cpu(2 * LIMIT_MS);
}

/* As a command that reads the file again for each job would do. */
static void start_again_and_again(void)
{
	cost_limit_enable(LIMIT_MS * NS_PER_MS, SIZE_MAX / 2, ALLOW);
	for (int i = 0; i < TOO_LONG_MS / WORK_MS; i++) {
		cost_limit_start("name");
		use_cpu(WORK_MS);
	}
}

static void test_time_counts_until_it_is_stopped(void **state)
{
	char words[512];
	(void)state;
	assert_int_equal(run(stop_in_time, words, sizeof(words)), 7);
	assert_int_equal(run(compute_without_limit, words, sizeof(words)), 7);
	assert_string_equal(words, "");
	assert_int_equal(run(start_again_and_again, words, sizeof(words)), COST_LIMIT_EXIT);
}

static void compute_after_stop(void)
{
	cost_limit_enable(LIMIT_MS * NS_PER_MS, SIZE_MAX / 2, ALLOW);
	cost_limit_start("name");
	cost_limit_stop();
	use_cpu(3 * LIMIT_MS);
}

static void test_time_after_the_work_does_not_count(void **state)
{
	char words[512];
	(void)state;
	assert_int_equal(run(compute_after_stop, words, sizeof(words)), 7);
}

static void check_memory(void)
{
	struct rlimit l;
	cost_limit_enable(NS_PER_S, (size_t)3 << 30, ALLOW);
	getrlimit(RLIMIT_DATA, &l);
	if (l.rlim_cur == (rlim_t)3 << 30)
		_exit(1);
	cost_limit_start("name");
	getrlimit(RLIMIT_DATA, &l);
	if (l.rlim_cur != (rlim_t)3 << 30)
		_exit(2);
	cost_limit_leave();
	getrlimit(RLIMIT_DATA, &l);
	_exit(l.rlim_cur == RLIM_INFINITY ? 0 : 3);
}

static void test_memory_is_limited_from_the_first_start_on(void **state)
{
	char words[512];
	(void)state;
	assert_int_equal(run(check_memory, words, sizeof(words)), COST_LIMIT_HAS_MEMORY ? 0 : 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_computing_for_too_long_ends_with_a_message),
		cmocka_unit_test(test_time_counts_until_it_is_stopped),
		cmocka_unit_test(test_time_after_the_work_does_not_count),
		cmocka_unit_test(test_memory_is_limited_from_the_first_start_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
