/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <locale.h>

#include "base/units.h"
#include "support/check.h"

static void expect_size(const char *text, uint64_t plain, uint64_t bytes)
{
	uint64_t got = 1;
	struct gd_error err = {0};
	if (units_parse_size(text, plain, &got, &err) != 0)
		fail_msg("'%s': %s", text, err.message);
	if (got != bytes)
		fail_msg("'%s': %llu", text, (unsigned long long)got);
}

static void refuse_size(const char *text, uint64_t plain, int code, const char *words)
{
	uint64_t got = 77;
	struct gd_error err = {0};
	assert_int_equal(units_parse_size(text, plain, &got, &err), code);
	assert_int_equal(got, 77);
	check_contains(err.message, words);
}

static void test_sizes_are_powers_of_1024_with_and_without_i(void **state)
{
	(void)state;
	expect_size("12G", 0, 12 * UNITS_GB);
	expect_size("12GB", 0, 12 * UNITS_GB);
	expect_size("12gib", 0, 12 * UNITS_GB);
	expect_size("800M", 0, 800 * UNITS_MB);
	expect_size("1.5G", 0, 1536 * UNITS_MB);
	expect_size("16 GiB", 0, 16 * UNITS_GB);
	expect_size("2T", 0, 2048 * UNITS_GB);
	expect_size("512B", 0, 512);
	expect_size("4k", 0, 4096);
	expect_size(".5K", 0, 512);
	expect_size("0", UNITS_MB, 0);
	expect_size("0", 0, 0);
	expect_size("6000", UNITS_MB, 6000 * UNITS_MB);
	expect_size("17179869183G", 0, UINT64_C(17179869183) << 30);
}

static void test_malformed_size_is_refused_with_the_reason(void **state)
{
	(void)state;
	refuse_size("12", 0, -EINVAL, "'12' has no unit");
	refuse_size("12X", UNITS_MB, -EINVAL, "plain number of MB");
	refuse_size("", UNITS_MB, -EINVAL, "is not a size");
	refuse_size("G", 0, -EINVAL, "12G");
	refuse_size("-1G", 0, -EINVAL, "12G");
	refuse_size("+1G", 0, -EINVAL, "12G");
	refuse_size("1.G", 0, -EINVAL, "12G");
	refuse_size("1e3M", 0, -EINVAL, "12G");
	refuse_size("0x10M", 0, -EINVAL, "12G");
	refuse_size("12G 3M", 0, -EINVAL, "12G");
	refuse_size("nan", UNITS_MB, -EINVAL, "is not a size");
	refuse_size("1,5G", 0, -EINVAL, "is not a size");
	refuse_size("17179869184G", 0, -ERANGE, "too large");
	refuse_size("99999999999999999999", UNITS_MB, -ERANGE, "too large");
	refuse_size("\x1b[31m", 0, -EINVAL, "'\\x1b[31m'");
}

static void expect_duration(const char *text, uint64_t ms)
{
	uint64_t got = 1;
	struct gd_error err = {0};
	if (units_parse_duration(text, &got, &err) != 0)
		fail_msg("'%s': %s", text, err.message);
	if (got != ms)
		fail_msg("'%s': %llu", text, (unsigned long long)got);
}

static void refuse_duration(const char *text, int code)
{
	uint64_t got = 77;
	struct gd_error err = {0};
	if (units_parse_duration(text, &got, &err) != code)
		fail_msg("'%s' gave %llu", text, (unsigned long long)got);
	assert_int_equal(got, 77);
	check_contains(err.message, "duration");
}

static void test_durations_take_units_in_descending_order_once_each(void **state)
{
	(void)state;
	expect_duration("90", 90000);
	expect_duration("0.25", 250);
	expect_duration("0", 0);
	expect_duration("2h", 7200000);
	expect_duration("1.5h", 5400000);
	expect_duration("30d", UINT64_C(2592000000));
	expect_duration("500ms", 500);
	expect_duration("1h30m", 5400000);
	expect_duration("2h 03m", 7380000);
	expect_duration("1w 2d", UINT64_C(777600000));
	expect_duration("5min", 300000);
	expect_duration("0.0001", 1);
	refuse_duration("", -EINVAL);
	refuse_duration("h", -EINVAL);
	refuse_duration("1h30", -EINVAL);
	refuse_duration("0h 30", -EINVAL);
	refuse_duration("30m1h", -EINVAL);
	refuse_duration("1h1h", -EINVAL);
	refuse_duration("1h,", -EINVAL);
	refuse_duration("-5", -EINVAL);
	refuse_duration("5 years", -EINVAL);
	refuse_duration("99999999999999w", -ERANGE);
}

static void test_integers_are_whole_and_in_range(void **state)
{
	(void)state;
	int64_t got = 77;
	struct gd_error err;
	assert_int_equal(units_parse_integer("-9223372036854775808", INT64_MIN, INT64_MAX, &got, &err), 0);
	assert_true(got == INT64_MIN);
	assert_int_equal(units_parse_integer("9223372036854775807", 0, INT64_MAX, &got, &err), 0);
	assert_true(got == INT64_MAX);
	got = 77;
	assert_int_equal(units_parse_integer("9223372036854775808", 0, INT64_MAX, &got, &err), -ERANGE);
	assert_int_equal(units_parse_integer("11", 1, 10, &got, &err), -ERANGE);
	assert_string_equal(err.message, "'11' is out of range; expected 1 to 10");
	assert_int_equal(units_parse_integer("1.5", 1, 10, &got, &err), -EINVAL);
	assert_int_equal(units_parse_integer("", 1, 10, &got, &err), -EINVAL);
	assert_int_equal(units_parse_integer("-", -1, 10, &got, &err), -EINVAL);
	assert_int_equal(got, 77);
}

static void test_sizes_are_printed_in_the_largest_fitting_unit(void **state)
{
	(void)state;
	char buf[UNITS_ROOM];
	assert_string_equal(units_format_energy(0, buf), "0 J");
	assert_string_equal(units_format_energy(3599, buf), "3599 J");
	assert_string_equal(units_format_energy(3600, buf), "1.0 Wh");
	assert_string_equal(units_format_energy(3599999, buf), "1.00 kWh");
	assert_string_equal(units_format_energy(UINT64_C(4464000), buf), "1.24 kWh");
	assert_string_equal(units_format_size(12 * UNITS_GB, buf), "12.0 GiB");
	assert_string_equal(units_format_size(9771050598, buf), "9.1 GiB");
	assert_string_equal(units_format_size(800 * UNITS_MB, buf), "800 MiB");
	assert_string_equal(units_format_size(UNITS_GB - 1, buf), "1.0 GiB");
	assert_string_equal(units_format_size(UNITS_MB - 1, buf), "1 MiB");
	assert_string_equal(units_format_size(512, buf), "512 B");
	assert_string_equal(units_format_size(0, buf), "0 B");
	assert_string_equal(units_format_size(UINT64_MAX, buf), "17179869184.0 GiB");
}

static void test_printed_durations_are_never_rounded_up(void **state)
{
	(void)state;
	char buf[UNITS_ROOM];
	assert_string_equal(units_format_duration(450, buf), "450ms");
	assert_string_equal(units_format_duration(4299, buf), "4.2s");
	assert_string_equal(units_format_duration(59999, buf), "59s");
	assert_string_equal(units_format_duration(185000, buf), "3m 05s");
	assert_string_equal(units_format_duration(7380000, buf), "2h 03m");
	assert_string_equal(units_format_duration(UINT64_C(4) * 86400000 + 7200000, buf), "4d 02h");
	assert_non_null(units_format_duration(UINT64_MAX, buf));
	assert_string_equal(units_format_seconds(4.29, buf), "4.2s");
	assert_string_equal(units_format_seconds(185, buf), "3m 05s");
}

static void test_estimates_are_rounded_to_what_can_be_known(void **state)
{
	(void)state;
	static const struct {
		uint64_t seconds;
		const char *words;
	} cases[] = {{0, "a few seconds"}, {9, "a few seconds"}, {10, "about 10 s"}, {44, "about 40 s"},
		{54, "about 50 s"}, {55, "about 1 min"}, {221, "about 4 min"}, {629, "about 10 min"},
		{3000, "about 50 min"}, {3440, "about 55 min"}, {3500, "about 1 h"}, {9000, "about 2.5 h"},
		{36000, "about 10 h"}, {40000, "about 11 h"}, {169000, "about 47 h"}, {260000, "about 3 days"}};
	char buf[UNITS_ROOM];
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_string_equal(units_format_about(cases[i].seconds * 1000, buf), cases[i].words);
	assert_non_null(units_format_about(UINT64_MAX, buf));
}

static void test_printed_sizes_and_durations_can_be_parsed_again(void **state)
{
	(void)state;
	char buf[UNITS_ROOM], again[UNITS_ROOM];
	uint64_t value;
	for (uint64_t n = 1; n < UINT64_MAX / 7; n = n * 5 / 2 + 1) {
		assert_int_equal(units_parse_size(units_format_size(n, buf), 0, &value, NULL), 0);
		assert_string_equal(units_format_size(value, again), buf);
		if (n > INT64_MAX / 1000000)
			continue;
		assert_int_equal(units_parse_duration(units_format_duration(n, buf), &value, NULL), 0);
		assert_string_equal(units_format_duration(value, again), buf);
	}
}

static void test_counts_are_grouped(void **state)
{
	char buf[UNITS_ROOM];
	(void)state;
	assert_string_equal(units_format_count(0, buf), "0");
	assert_string_equal(units_format_count(999, buf), "999");
	assert_string_equal(units_format_count(1000, buf), "1,000");
	assert_string_equal(units_format_count(UINT64_MAX, buf), "18,446,744,073,709,551,615");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts_are_grouped),
		cmocka_unit_test(test_sizes_are_powers_of_1024_with_and_without_i),
		cmocka_unit_test(test_malformed_size_is_refused_with_the_reason),
		cmocka_unit_test(test_durations_take_units_in_descending_order_once_each),
		cmocka_unit_test(test_integers_are_whole_and_in_range),
		cmocka_unit_test(test_sizes_are_printed_in_the_largest_fitting_unit),
		cmocka_unit_test(test_printed_durations_are_never_rounded_up),
		cmocka_unit_test(test_estimates_are_rounded_to_what_can_be_known),
		cmocka_unit_test(test_printed_sizes_and_durations_can_be_parsed_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
