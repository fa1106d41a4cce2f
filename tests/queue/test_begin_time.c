/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/date.h"
#include "queue/input/begin_time.h"
#include "support/check.h"

static int64_t at(const char *date)
{
	int64_t ms;
	assert_int_equal(date_parse(date, strlen(date), &ms), 0);
	return ms;
}

static void expect(const char *now, const char *text, const char *date)
{
	int64_t ms = 0;
	struct gd_error err = {0};
	if (begin_time_parse(text, at(now), &ms, &err) < 0)
		fail_msg("'%s': %s", text, err.message);
	if (ms != at(date))
		fail_msg("'%s': %lld, not %lld", text, (long long)ms, (long long)at(date));
}

static void test_times_as_people_write_them(void **state)
{
	(void)state;
	setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
	tzset();
	expect("2026-11-17T12:00:00+01:00", "22:00", "2026-11-17T22:00:00+01:00");
	expect("2026-11-17T22:00:00+01:00", "22:00", "2026-11-18T22:00:00+01:00");
	expect("2026-11-17T22:00:01+01:00", "22:00:30", "2026-11-17T22:00:30+01:00");
	expect("2026-11-30T22:00:01+01:00", "1:05", "2026-12-01T01:05:00+01:00");
	/* Summer time ends on this night. */
	expect("2026-10-24T23:00:00+02:00", "06:00", "2026-10-25T06:00:00+01:00");
	expect("2026-11-17T12:00:00.500+01:00", "+2h", "2026-11-17T14:00:00.500+01:00");
	expect("2026-11-17T12:00:00+01:00", "+1h30m", "2026-11-17T13:30:00+01:00");
	expect("2026-11-17T12:00:00+01:00", "2026-12-24", "2026-12-24T00:00:00+01:00");
	expect("2026-11-17T12:00:00+01:00", "2026-12-24 22:15", "2026-12-24T22:15:00+01:00");
	expect("2026-11-17T12:00:00+01:00", "2026-12-24T22:15:30Z", "2026-12-24T22:15:30Z");
	expect("2026-11-17T12:00:00+01:00", "2020-01-01", "2020-01-01T00:00:00+01:00");
}

static void test_what_is_not_a_time_is_refused(void **state)
{
	(void)state;
	static const char *const texts[] = {"", "x", "24:00", "22:60", "22", "22:00x", "22:", ":00", "22:00:61", "-2h",
		"+", "+x", "2026-13-01", "tomorrow", "+99999w"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		int64_t ms = 77;
		struct gd_error err = {0};
		if (begin_time_parse(texts[i], 1000, &ms, &err) != -EINVAL)
			fail_msg("'%s'", texts[i]);
		assert_true(ms == 77 && err.message[0]);
	}
}

static void test_a_time_is_shown_without_redundant_parts(void **state)
{
	(void)state;
	char date[DATE_TEXT];
	int64_t now = at("2026-11-17T12:00:00+01:00");
	date_format_local(at("2026-11-17T22:00:00+01:00"), now, date);
	assert_string_equal(date, "22:00");
	date_format_local(at("2026-11-17T22:00:05.999+01:00"), now, date);
	assert_string_equal(date, "22:00:05");
	date_format_local(at("2026-11-18T12:00:00+01:00"), now, date);
	assert_string_equal(date, "2026-11-18 12:00");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_times_as_people_write_them),
		cmocka_unit_test(test_what_is_not_a_time_is_refused),
		cmocka_unit_test(test_a_time_is_shown_without_redundant_parts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
