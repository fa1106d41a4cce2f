/* SPDX-License-Identifier: MIT */
/* Waiting for a child that waits for a pipe, runs forever, or is only slow. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/text.h"
#include "cli/git_child.h"
#include "support/scratch.h"

static int run(const char *script, struct git_patience patience, struct text *out)
{
	int fds[2];
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		execl("/bin/sh", "sh", "-c", script, (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	int r = git_child_read(pid, fds[0], &patience, out);
	close(fds[0]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return r;
}

static void test_child_that_waits_for_a_pipe_is_ended(void **state)
{
	(void)state;
	struct text out = {0};
	assert_int_equal(mkfifo("pipe", 0666), 0);
	assert_int_equal(run("echo a; cat pipe; echo b", (struct git_patience){300, 600000}, &out), -ETIME);
	assert_string_equal(text_string(&out), "a\n");
	text_finish(&out);
}

static void test_child_that_works_without_end_is_ended(void **state)
{
	(void)state;
	struct text out = {0};
	assert_int_equal(run("(while :; do :; done); echo b", (struct git_patience){60000, 200}, &out), -EFBIG);
	text_finish(&out);
}

/* Slow output, or CPU time now and then, is progress, but not forever. */
static void test_child_that_takes_its_time_is_ended(void **state)
{
	(void)state;
	struct text out = {0};
	assert_int_equal(run("while :; do echo a; sleep 0.05; done", (struct git_patience){60000, 500}, &out), -EFBIG);
	assert_int_equal(run("exec yes", (struct git_patience){60000, 20}, &out), -EFBIG);
	text_finish(&out);
}

static void test_child_that_works_is_waited_for(void **state)
{
	(void)state;
	struct text out = {0};
	/* Longer than it may be idle. */
	assert_int_equal(run("i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done; echo b",
				 (struct git_patience){400, 600000}, &out),
		0);
	assert_string_equal(text_string(&out), "b\n");
	text_finish(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_child_that_waits_for_a_pipe_is_ended),
		scratch_test(test_child_that_works_without_end_is_ended),
		scratch_test(test_child_that_takes_its_time_is_ended),
		scratch_test(test_child_that_works_is_waited_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
