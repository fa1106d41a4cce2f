/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "support/host.h"
#include "support/missing_calls.h"

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* Returns 0, or the number of the failed check. The last descriptor is above the limit that is set before they
 * are closed. */
static int check_close_range(void)
{
	const int fds[] = {20, 21, 22, 23, 300, 900};
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (dup2(STDERR_FILENO, fds[i]) < 0)
			return 1;
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 2;
	limit.rlim_cur = 400;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 3;
	file_close_range(22, 21);
	if (!is_open(21) || !is_open(22))
		return 4;
	file_close_range(21, 22);
	if (!is_open(20) || is_open(21) || is_open(22) || !is_open(23) || !is_open(300))
		return 5;
	file_close_range(23, INT_MAX);
	if (!is_open(20) || is_open(23) || is_open(300) || is_open(900))
		return 6;
	return is_open(STDERR_FILENO) ? 0 : 7;
}

static int check_without_close_range(void)
{
	return missing_calls_forbid("close_range") < 0 ? 100 : check_close_range();
}

static void test_descriptors_of_a_range_are_closed_and_no_others(void **state)
{
	(void)state;
	host_run(check_close_range);
}

static void test_a_kernel_without_close_range_closes_the_same(void **state)
{
	(void)state;
	host_run(check_without_close_range);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_descriptors_of_a_range_are_closed_and_no_others),
		cmocka_unit_test(test_a_kernel_without_close_range_closes_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
