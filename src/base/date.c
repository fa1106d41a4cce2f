/* SPDX-License-Identifier: MIT */
#include "base/date.h"

#include <errno.h>
#include <stdatomic.h>
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

void date_format(int64_t ms, char out[DATE_TEXT])
{
	int64_t s = ms / 1000, rest = ms % 1000;
	if (rest < 0) {
		rest += 1000;
		s--;
	}
	time_t t = (time_t)s;
	struct tm tm;
	char text[DATE_TEXT];
	if (!gmtime_r(&t, &tm) || tm.tm_year > 8099 || tm.tm_year < -1900) {
		snprintf(out, DATE_TEXT, "1970-01-01T00:00:00.000Z");
		return;
	}
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out, DATE_TEXT, "%.19s.%03dZ", text, (int)rest);
}

static int two_digits(const char *p)
{
	if (p[0] < '0' || p[0] > '9' || p[1] < '0' || p[1] > '9')
		return -1;
	return (p[0] - '0') * 10 + (p[1] - '0');
}

/*
 * The seconds from 1970 to the beginning of a day in UTC. Journals hold many times of the
 * same day, and timegm() takes longer than everything else here, so the last answer is kept:
 * the date as YYYYMMDD in the upper half, the days since 1970 in the lower. (Not _Thread_local,
 * which would make the library link more than libc.)
 */
static int64_t midnight_of(int year, int month, int day)
{
	static _Atomic uint64_t last_day;
	uint32_t date = (uint32_t)(year * 10000 + month * 100 + day);
	uint64_t last = atomic_load_explicit(&last_day, memory_order_relaxed);
	if (last >> 32 != date) {
		struct tm tm = {.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day};
		last = (uint64_t)date << 32 | (uint32_t)(timegm(&tm) / 86400);
		atomic_store_explicit(&last_day, last, memory_order_relaxed);
	}
	return (int64_t)(int32_t)(uint32_t)last * 86400;
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
	int64_t at = midnight_of(year, mo, d) + h * 3600 + mi * 60 + s - offset_min * 60;
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
