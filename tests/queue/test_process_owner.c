/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "queue/schedule/process_owner.h"

static void test_a_process_is_described_by_user_and_name(void **state)
{
	(void)state;
	char buf[256], expected[256];
	const struct passwd *user = getpwuid(geteuid());
	if (!user)
		skip();
	assert_int_equal(prctl(PR_SET_NAME, "py\x1b[31m"), 0);
	snprintf(expected, sizeof(expected), "%s, py\\x1b[31m", user->pw_name);
	assert_true(process_owner_describe(NULL, getpid(), buf, sizeof(buf)));
	assert_string_equal(buf, expected);
	assert_true(process_owner_describe(NULL, getpid(), buf, 4)); /* truncated, no overflow */
	assert_int_equal(strlen(buf), 3);
}

static void test_a_process_that_is_gone_is_not_described(void **state)
{
	(void)state;
	char buf[256] = "untouched";
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(process_owner_describe(NULL, pid, buf, sizeof(buf)));
	assert_false(process_owner_describe(NULL, 0, buf, sizeof(buf)));
	assert_false(process_owner_describe(NULL, -1, buf, sizeof(buf)));
	assert_string_equal(buf, "untouched");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_process_is_described_by_user_and_name),
		cmocka_unit_test(test_a_process_that_is_gone_is_not_described),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
