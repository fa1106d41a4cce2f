/* SPDX-License-Identifier: MIT */
#include "view/report/report_axis.h"

#include <stdio.h>
#include <time.h>

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

static const int64_t steps[] = {100, 200, 500, SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 15 * SECOND, 30 * SECOND,
	MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR,
	12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 90 * DAY, 365 * DAY};
#define NUM_STEPS (sizeof(steps) / sizeof(*steps))

static struct tm local(int64_t ms)
{
	time_t seconds = (time_t)(ms / 1000);
	struct tm tm = {0};
	localtime_r(&seconds, &tm);
	return tm;
}

/* Not strftime(): the page is in English in every locale. */
static const char *month(const struct tm *tm)
{
	static const char *const names[] = {
		"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
	return names[tm->tm_mon % 12];
}

const char *report_moment(int64_t time_ms, char buf[REPORT_MOMENT])
{
	struct tm tm = local(time_ms);
	snprintf(buf, REPORT_MOMENT, "%s %d %02d:%02d:%02d", month(&tm), tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
	return buf;
}

int64_t report_axis_step(int64_t span_ms, int64_t most)
{
	for (size_t i = 0; i < NUM_STEPS; i++)
		if (span_ms / steps[i] < most)
			return steps[i];
	return span_ms / most + 1;
}

int64_t report_axis_floor(int64_t time_ms, int64_t step_ms)
{
	int64_t shifted = time_ms + (int64_t)local(time_ms).tm_gmtoff * 1000;
	int64_t past = shifted % step_ms;
	return time_ms - (past < 0 ? past + step_ms : past);
}

static void label(char out[REPORT_TICK_LABEL], int64_t ms, int64_t step)
{
	struct tm tm = local(ms);
	if (step >= DAY || (step >= MINUTE && tm.tm_hour == 0 && tm.tm_min == 0))
		snprintf(out, REPORT_TICK_LABEL, "%s %d", month(&tm), tm.tm_mday);
	else if (step >= MINUTE)
		snprintf(out, REPORT_TICK_LABEL, "%02d:%02d", tm.tm_hour, tm.tm_min);
	else if (step >= SECOND)
		snprintf(out, REPORT_TICK_LABEL, "%02d:%02d:%02d", tm.tm_hour, tm.tm_min, tm.tm_sec);
	else
		snprintf(out, REPORT_TICK_LABEL, "%02d:%02d.%d", tm.tm_min, tm.tm_sec, (int)(ms % 1000 / 100));
}

int report_axis_x(const struct report_axis *a, int64_t time_ms)
{
	if (time_ms <= a->from_ms)
		return 0;
	if (time_ms >= a->to_ms)
		return REPORT_WIDTH;
	/* Correct for all times of int64_t, if the span is at most a few hundred years. */
	return (int)((double)(time_ms - a->from_ms) / (double)(a->to_ms - a->from_ms) * REPORT_WIDTH);
}

void report_axis_init(struct report_axis *a, int64_t from_ms, int64_t to_ms)
{
	*a = (struct report_axis){.from_ms = from_ms, .to_ms = to_ms > from_ms ? to_ms : from_ms + 1};
	a->step_ms = report_axis_step(a->to_ms - from_ms, REPORT_TICKS - 2);
	int64_t at = report_axis_floor(from_ms, a->step_ms);
	for (; at <= a->to_ms && a->num_ticks < REPORT_TICKS; at += a->step_ms) {
		if (at < from_ms)
			continue;
		struct report_tick *tick = &a->ticks[a->num_ticks++];
		tick->x = report_axis_x(a, at);
		label(tick->label, at, a->step_ms);
	}
}

void report_axis_labels(struct text *t, const struct report_axis *a)
{
	text_append_string(t, "<div class=\"axis\" aria-hidden=\"true\">");
	for (size_t i = 0; i < a->num_ticks; i++) {
		const struct report_tick *tick = &a->ticks[i];
		/* At the edge there is no space for half a label. */
		if (tick->x > REPORT_WIDTH * 97 / 100)
			continue;
		text_appendf(t, "<span%s style=\"left:%d.%02d%%\">%s</span>", i % 2 ? " class=\"odd\"" : "",
			tick->x / 100, tick->x % 100, tick->label);
	}
	text_append_string(t, "</div>\n");
}

void report_axis_grid(struct text *t, const struct report_axis *a, int height)
{
	if (a->num_ticks == 0)
		return;
	text_append_string(t, "<path class=\"grid\" d=\"");
	for (size_t i = 0; i < a->num_ticks; i++)
		text_appendf(t, "M%d 0v%d", a->ticks[i].x, height);
	text_append_string(t, "\"/>");
}
