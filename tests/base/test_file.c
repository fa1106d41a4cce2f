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
#include <sys/socket.h>
#include <sys/time.h>
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

static void test_any_time_of_a_file_is_a_number(void **state)
{
	(void)state;
	static const int64_t seconds[] = {
		INT64_MIN, INT64_MIN / 1000, -1, 0, 1, INT64_C(15020726400), INT64_MAX / 1000, INT64_MAX};
	struct stat st = {.st_mtim = {.tv_sec = 1700000000, .tv_nsec = 123456789}};
	const int64_t now_ms = 1700000000123;
	assert_int_equal(file_mtime_ns(&st), 1700000000123456789);
	assert_int_equal(file_mtime_ms(&st), now_ms);
	for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
		struct stat later = st;
		st.st_mtim.tv_sec = later.st_mtim.tv_sec = seconds[i];
		later.st_mtim.tv_nsec++;
		assert_true(file_mtime_ns(&st) != file_mtime_ns(&later));
		int64_t age_ms;
		assert_false(__builtin_sub_overflow(now_ms, file_mtime_ms(&st), &age_ms));
		assert_true((age_ms > 0) == (seconds[i] < 1700000000));
	}
}

static void test_time_limit_of_a_socket_ends_a_write(void **state)
{
	(void)state;
	static const char data[4 << 20];
	const struct timeval limit = {.tv_usec = 1000};
	int ends[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)), 0);
	assert_int_equal(file_write_all(ends[0], data, sizeof(data)), -EAGAIN);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_descriptors_of_a_range_are_closed_and_no_others),
		cmocka_unit_test(test_a_kernel_without_close_range_closes_the_same),
		cmocka_unit_test(test_any_time_of_a_file_is_a_number),
		cmocka_unit_test(test_time_limit_of_a_socket_ends_a_write),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
