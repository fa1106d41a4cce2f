/* SPDX-License-Identifier: MIT */
#include "base/date.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

int64_t date_now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Writes the digits before `end`, over zeros. */
static void put_digits(char *end, int n)
{
	for (; n > 0; n /= 10)
		*--end = (char)('0' + n % 10);
}

/*
 * Days since 1970 of a date in the Gregorian calendar. timegm() and gmtime_r() would be slow: they read /etc/localtime
 * first, and a journal has a date in each line. Years begin in March here, so that the leap day is the last day of a
 * year; 400 years have 146,097 days, and 719,468 days lie between 0000-03-01 and 1970-01-01.
 */
static int64_t days_of(int year, int month, int day)
{
	int y = year - (month <= 2) + 400, m = (month + 9) % 12; /* + 400: positive even in January of year 0 */
	return (int64_t)y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1 - 719468 - 146097;
}

/* The inverse, for dates from the year 0 on. */
static void date_of(int64_t days, int *ret_year, int *ret_month, int *ret_day)
{
	int64_t n = days + 719468, era = n / 146097, in_era = n % 146097;
	int64_t y = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
	int in_year = (int)(in_era - (y * 365 + y / 4 - y / 100)), m = (in_year * 5 + 2) / 153;
	*ret_day = in_year - (m * 153 + 2) / 5 + 1;
	*ret_month = m < 10 ? m + 3 : m - 9;
	*ret_year = (int)(era * 400 + y) + (*ret_month <= 2);
}

/* Years 1 to 9999; other years do not fit the format. */
#define FIRST_MS INT64_C(-62135596800000)
#define LAST_MS  INT64_C(253402300799999)

void date_format(int64_t ms, char out[DATE_TEXT])
{
	enum { DAY_MS = 86400000 };
	int64_t days = ms / DAY_MS;
	int rest = (int)(ms % DAY_MS), year, month, day;
	if (ms < FIRST_MS || ms > LAST_MS) {
		snprintf(out, DATE_TEXT, "1970-01-01T00:00:00.000Z");
		return;
	}
	if (rest < 0) {
		rest += DAY_MS;
		days--;
	}
	date_of(days, &year, &month, &day);
	memcpy(out, "0000-00-00T00:00:00.000Z", sizeof("0000-00-00T00:00:00.000Z"));
	put_digits(out + 4, year);
	put_digits(out + 7, month);
	put_digits(out + 10, day);
	put_digits(out + 13, rest / 3600000);
	put_digits(out + 16, rest / 60000 % 60);
	put_digits(out + 19, rest / 1000 % 60);
	put_digits(out + 23, rest % 1000);
}

static int two_digits(const char *p)
{
	if (p[0] < '0' || p[0] > '9' || p[1] < '0' || p[1] > '9')
		return -1;
	return (p[0] - '0') * 10 + (p[1] - '0');
}

/* After the seconds: fraction and zone. */
static int parse_rest(const char *p, const char *end, int64_t *ret_ms, bool *ret_local, int *ret_offset_min)
{
	*ret_ms = 0;
	if (p < end && *p == '.') {
		int scale = 100;
		for (p++; p < end && *p >= '0' && *p <= '9'; p++, scale /= 10)
			*ret_ms += (*p - '0') * scale;
	}
	*ret_local = p == end;
	*ret_offset_min = 0;
	if (p == end || (end - p == 1 && *p == 'Z'))
		return 0;
	if (end - p != 6 || (*p != '+' && *p != '-') || p[3] != ':')
		return -EBADMSG;
	int h = two_digits(p + 1), m = two_digits(p + 4);
	if (h < 0 || m < 0)
		return -EBADMSG;
	*ret_offset_min = (*p == '-' ? -1 : 1) * (h * 60 + m);
	return 0;
}

int date_parse(const char *text, size_t size, int64_t *ret)
{
	if (size < 19 || text[4] != '-' || text[7] != '-' || (text[10] != 'T' && text[10] != ' ') || text[13] != ':' ||
		text[16] != ':')
		return -EBADMSG;
	int c = two_digits(text), y = two_digits(text + 2), mo = two_digits(text + 5), d = two_digits(text + 8);
	int h = two_digits(text + 11), mi = two_digits(text + 14), s = two_digits(text + 17);
	if (c < 0 || y < 0 || mo < 1 || mo > 12 || d < 1 || d > 31 || h < 0 || h > 23 || mi < 0 || mi > 59 || s < 0 ||
		s > 60)
		return -EBADMSG;
	int64_t ms;
	bool local;
	int offset_min;
	if (parse_rest(text + 19, text + size, &ms, &local, &offset_min) < 0)
		return -EBADMSG;
	int year = c * 100 + y;
	int64_t at = days_of(year, mo, d) * 86400 + h * 3600 + mi * 60 + s - offset_min * 60;
	if (local) {
		struct tm tm = {.tm_year = year - 1900,
			.tm_mon = mo - 1,
			.tm_mday = d,
			.tm_hour = h,
			.tm_min = mi,
			.tm_sec = s,
			.tm_isdst = -1};
		at = mktime(&tm);
	}
	*ret = at * 1000 + ms;
	return 0;
}

void date_format_local(int64_t ms, int64_t now_ms, char out[DATE_TEXT])
{
	time_t seconds = (time_t)(ms / 1000), now_seconds = (time_t)(now_ms / 1000);
	struct tm t, now;
	if (!localtime_r(&seconds, &t) || !localtime_r(&now_seconds, &now)) {
		date_format(ms, out);
		return;
	}
	bool today = t.tm_year == now.tm_year && t.tm_yday == now.tm_yday;
	strftime(out, DATE_TEXT,
		today      ? (t.tm_sec ? "%H:%M:%S" : "%H:%M")
		: t.tm_sec ? "%Y-%m-%d %H:%M:%S"
			   : "%Y-%m-%d %H:%M",
		&t);
}
