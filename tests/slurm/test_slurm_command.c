/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"
#include "slurm/slurm_command.h"
#include "support/process.h"
#include "support/scratch.h"
#include "support/wait.h"

struct answer {
	int count, result;
	char out[256], err[256];
	size_t size;
};

static void on_answer(void *context, int result, const char *out, size_t size, const char *err)
{
	struct answer *a = context;
	a->count++;
	a->result = result;
	a->size = size;
	snprintf(a->out, sizeof(a->out), "%s", out);
	snprintf(a->err, sizeof(a->err), "%s", err);
}

static void run(const char *script, int64_t timeout_ms, struct answer *a)
{
	struct loop *l;
	struct slurm_command *c;
	*a = (struct answer){0};
	assert_int_equal(loop_create(&l), 0);
	assert_int_equal(
		slurm_command_start(l, (const char *const[]){"sh", "-c", script, NULL}, timeout_ms, on_answer, a, &c),
		0);
	uint64_t deadline = wait_deadline_ns();
	while (a->count == 0) {
		wait_check(deadline, "the answer");
		assert_true(loop_round(l, 1000) >= 0);
	}
	/* Waits until it is reaped. */
	while (waitid(P_ALL, 0, &(siginfo_t){0}, WEXITED | WNOHANG | WNOWAIT) == 0) {
		wait_check(deadline, "the end of the command");
		assert_true(loop_round(l, 10) >= 0);
	}
	assert_int_equal(errno, ECHILD);
	assert_int_equal(a->count, 1);
	loop_destroy(l);
}

static void test_output_and_exit_code(void **state)
{
	(void)state;
	struct answer a;
	run("echo one; echo two >&2", 60000, &a);
	assert_int_equal(a.result, 0);
	assert_string_equal(a.out, "one\n");
	assert_string_equal(a.err, "two\n");
	run("echo half; echo 'invalid partition' >&2; exit 1", 60000, &a);
	assert_int_equal(a.result, -ECHILD);
	assert_string_equal(a.err, "invalid partition\n");
	run("kill -9 $$", 60000, &a);
	assert_int_equal(a.result, -ECHILD);
	run("i=0; while [ $i -lt 20000 ]; do echo 0123456789; i=$((i+1)); done", 60000, &a);
	assert_int_equal(a.size, 220000);
}

static void test_command_that_hangs_is_killed_with_its_children(void **state)
{
	(void)state;
	struct answer a;
	run("sleep 1000 & echo $! > child; wait", 200, &a);
	assert_int_equal(a.result, -ETIMEDOUT);
	if (scratch_has("child"))
		assert_true(process_await_gone(atoi(scratch_read("child")), WAIT_MS));
	/* Even if it has closed its output. */
	run("exec > /dev/null 2>&1; sleep 1000", 200, &a);
	assert_int_equal(a.result, -ETIMEDOUT);
}

static void test_missing_command(void **state)
{
	(void)state;
	struct loop *l;
	struct slurm_command *c;
	struct answer a = {0};
	assert_int_equal(loop_create(&l), 0);
	assert_int_equal(
		slurm_command_start(l, (const char *const[]){"gpuq-no-such-program", NULL}, 1000, on_answer, &a, &c),
		-ENOENT);
	assert_int_equal(a.count, 0);
	loop_destroy(l);
}

static void test_settings_that_change_the_output_do_not_reach_it(void **state)
{
	(void)state;
	struct answer a;
	setenv("SQUEUE_USERS", "nobody", 1);
	setenv("SLURM_TIME_FORMAT", "relative", 1);
	setenv("TZ", "Asia/Tokyo", 1);
	setenv("SLURM_CONF", "/etc/other.conf", 1);
	run("env | grep -E '^(SQUEUE|SLURM|TZ|LC_ALL)' | sort", 60000, &a);
	assert_string_equal(a.out, "LC_ALL=C\nSLURM_CONF=/etc/other.conf\nTZ=UTC\n");
}

static void test_cancelled_command_says_nothing_and_leaves_nothing(void **state)
{
	(void)state;
	struct loop *l;
	struct slurm_command *c;
	struct answer a = {0};
	assert_int_equal(loop_create(&l), 0);
	assert_int_equal(
		slurm_command_start(l, (const char *const[]){"sleep", "1000", NULL}, 600000, on_answer, &a, &c), 0);
	slurm_command_cancel(c);
	uint64_t deadline = wait_deadline_ns();
	while (waitid(P_ALL, 0, &(siginfo_t){0}, WEXITED | WNOHANG | WNOWAIT) == 0) {
		wait_check(deadline, "the end of the command");
		assert_true(loop_round(l, 10) >= 0);
	}
	assert_int_equal(a.count, 0);
	loop_destroy(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_output_and_exit_code),
		scratch_test(test_command_that_hangs_is_killed_with_its_children),
		scratch_test(test_missing_command),
		scratch_test(test_settings_that_change_the_output_do_not_reach_it),
		scratch_test(test_cancelled_command_says_nothing_and_leaves_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
