/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/date.h"

static int64_t parsed(const char *text)
{
	int64_t ms = -1;
	assert_int_equal(date_parse(text, strlen(text), &ms), 0);
	return ms;
}

static void test_formatted_date_parses_to_the_same_time(void **state)
{
	(void)state;
	static const int64_t times[] = {0, 1, 999, 1000, 951782400123, 1709164800000, 4102444799999, 1792098396123};
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		char text[DATE_TEXT];
		date_format(times[i], text);
		assert_true(parsed(text) == times[i]);
	}
	for (int64_t day = -20000; day < 60000; day += 13) {
		char text[DATE_TEXT];
		date_format(day * 86400000 + 42, text);
		assert_true(parsed(text) == day * 86400000 + 42);
	}
}

/* All days from the year 1 to 9999, with the calendar of the C library. */
static void test_calendar_is_that_of_the_c_library(void **state)
{
	(void)state;
	for (int64_t day = -719162; day <= 2932896; day++) {
		char text[DATE_TEXT], expected[DATE_TEXT];
		time_t t = (time_t)(day * 86400 + 86399);
		struct tm tm;
		date_format((int64_t)t * 1000 + 7, text);
		assert_non_null(gmtime_r(&t, &tm));
		snprintf(expected, sizeof(expected), "%04d-%02d-%02dT23:59:59.007Z", (tm.tm_year + 1900) % 10000,
			(tm.tm_mon + 1) % 100, tm.tm_mday % 100);
		assert_string_equal(text, expected);
		assert_true(parsed(text) == (int64_t)t * 1000 + 7);
	}
	assert_true(parsed("2023-02-30T00:00:00Z") == parsed("2023-03-02T00:00:00Z"));
	assert_true(parsed("0000-01-01T00:00:00Z") == INT64_C(-62167219200000));
	char text[DATE_TEXT];
	date_format(INT64_MIN, text);
	assert_string_equal(text, "1970-01-01T00:00:00.000Z");
	date_format(253402300800000, text);
	assert_string_equal(text, "1970-01-01T00:00:00.000Z");
}

static void test_iso_dates_with_space_fraction_offset_or_local_time_are_parsed(void **state)
{
	(void)state;
	assert_true(parsed("2024-05-01T10:00:00Z") == 1714557600000);
	assert_true(parsed("2024-05-01 10:00:00.5Z") == 1714557600500);
	assert_true(parsed("2024-05-01T12:00:00.123456+02:00") == 1714557600123);
	setenv("TZ", "UTC-2", 1);
	tzset();
	assert_true(parsed("2024-05-01T12:00:00") == 1714557600000);
}

static void test_malformed_date_is_refused_and_leaves_the_result_alone(void **state)
{
	(void)state;
	static const char *const bad[] = {"", "2024", "2024-05-01", "2024-13-01T10:00:00Z", "2024-05-01T25:00:00Z",
		"2024-05-01T10:00:00X", "2024-05-01T10:00:00+2", "20x4-05-01T10:00:00Z", "2024-05-01T10:00:00Zx"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int64_t ms = 7;
		assert_int_equal(date_parse(bad[i], strlen(bad[i]), &ms), -EBADMSG);
		assert_true(ms == 7);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_formatted_date_parses_to_the_same_time),
		cmocka_unit_test(test_calendar_is_that_of_the_c_library),
		cmocka_unit_test(test_iso_dates_with_space_fraction_offset_or_local_time_are_parsed),
		cmocka_unit_test(test_malformed_date_is_refused_and_leaves_the_result_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
