/* SPDX-License-Identifier: MIT */
#include "queue/input/begin_time.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/date.h"
#include "base/display.h"
#include "base/error.h"
#include "base/units.h"

#define DAY_S (24 * 60 * 60)
/* A delay of more than 100 years is a mistake. */
#define LATEST_MS ((int64_t)100 * 366 * DAY_S * 1000)

/* "22:00" or "22:00:30". */
static bool parse_clock(const char *text, int *h, int *m, int *s)
{
	int end = 0;
	*s = 0;
	if (strspn(text, "0123456789:") != strlen(text))
		return false;
	if (sscanf(text, "%2d:%2d%n", h, m, &end) != 2)
		return false;
	if (text[end] == ':' && sscanf(text, "%2d:%2d:%2d%n", h, m, s, &end) != 3)
		return false;
	return !text[end] && *h < 24 && *m < 60 && *s < 60;
}

/* Today or tomorrow. mktime() handles daylight saving time. */
static int64_t next_time(int64_t now_ms, int h, int m, int s)
{
	time_t now = (time_t)(now_ms / 1000);
	struct tm day;
	localtime_r(&now, &day);
	int64_t ms = 0;
	for (int later = 0; later < 3 && ms <= now_ms; later++) {
		struct tm t = {.tm_year = day.tm_year,
			.tm_mon = day.tm_mon,
			.tm_mday = day.tm_mday + later,
			.tm_hour = h,
			.tm_min = m,
			.tm_sec = s,
			.tm_isdst = -1};
		ms = (int64_t)mktime(&t) * 1000;
	}
	return ms;
}

/* "2026-11-18", "2026-11-18 22:00" and all formats of date_parse(). */
static bool parse_date(const char *text, int64_t *ret_ms)
{
	char whole[64];
	size_t size = strlen(text);
	if (size > sizeof(whole) - 16)
		return false;
	snprintf(whole, sizeof(whole), "%s%s", text, size == 10 ? "T00:00:00" : size == 16 ? ":00" : "");
	return date_parse(whole, strlen(whole), ret_ms) == 0;
}

int begin_time_parse(const char *text, int64_t now_ms, int64_t *ret_ms, struct gd_error *err)
{
	char quote[DISPLAY_QUOTE_ROOM];
	uint64_t later_ms;
	int64_t ms;
	int h, m, s;
	if (*text == '+') {
		int r = units_parse_duration(text + 1, &later_ms, err);
		if (r < 0 || later_ms > (uint64_t)LATEST_MS)
			return r == -EINVAL
				       ? r
				       : error_set(err, -EINVAL, "'%s' is too far away", display_quote(text, quote));
		*ret_ms = now_ms + (int64_t)later_ms;
		return 0;
	}
	if (parse_clock(text, &h, &m, &s))
		ms = next_time(now_ms, h, m, s);
	else if (!parse_date(text, &ms))
		return error_set(err, -EINVAL,
			"'%s' is not a time; expected one like 22:00, +2h, 2026-12-24 or '2026-12-24 22:00'",
			display_quote(text, quote));
	*ret_ms = ms;
	return 0;
}
