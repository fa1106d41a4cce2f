/* SPDX-License-Identifier: MIT */
/* Which part of a log a request asks for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "view/web/web_range.h"

static void check_range(const char *header, uint64_t size, uint64_t from, uint64_t to)
{
	uint64_t got_from = 77, got_to = 77;
	assert_int_equal(web_range_parse(header, size, 100, &got_from, &got_to), 0);
	assert_int_equal(got_from, from);
	assert_int_equal(got_to, to);
}

static void test_ranges_are_never_longer_than_the_limit(void **state)
{
	(void)state;
	uint64_t gigabytes = UINT64_C(5) << 30, from, to;
	check_range(NULL, gigabytes, gigabytes - 100, gigabytes);
	check_range("bytes=-10", gigabytes, gigabytes - 10, gigabytes);
	check_range("bytes=-1000", gigabytes, gigabytes - 100, gigabytes);
	check_range("bytes=0-", gigabytes, 0, 100);
	check_range("bytes=5-9", gigabytes, 5, 10);
	check_range("bytes=5-5000", gigabytes, 5, 105);
	check_range("bytes=5-", 8, 5, 8);
	check_range("bytes=5-900", 8, 5, 8);
	check_range("bytes=-900", 8, 0, 8);
	check_range(NULL, 0, 0, 0);
	assert_int_equal(web_range_parse("bytes=8-", 8, 100, &from, &to), -ERANGE);
	assert_int_equal(web_range_parse("bytes=0-", 0, 100, &from, &to), -ERANGE);
	static const char *const wrong[] = {"", "bytes", "bytes=", "bytes=-", "bytes=a-", "bytes=5", "bytes=9-5",
		"bytes=1-2,4-5", "bytes=1-2 ", "lines=1-2", "bytes=-5-9", "bytes=99999999999999999999-"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_int_equal(web_range_parse(wrong[i], 1000, 100, &from, &to), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges_are_never_longer_than_the_limit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
