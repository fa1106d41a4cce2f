/* SPDX-License-Identifier: MIT */
#include "view/report/report_periods.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"

static int by_start(const void *a, const void *b)
{
	const struct report_period *x = a, *y = b;
	return (x->from_ms > y->from_ms) - (x->from_ms < y->from_ms);
}

/* Joins periods that overlap or touch. */
static void merge(struct report_periods *s)
{
	size_t kept = 0;
	for (size_t i = 0; i < s->count; i++) {
		struct report_period next = s->list[i];
		struct report_period *last = kept ? &s->list[kept - 1] : NULL;
		if (last && next.from_ms <= last->to_ms) {
			last->to_ms = next.to_ms > last->to_ms ? next.to_ms : last->to_ms;
			continue;
		}
		next.before_ms = last ? last->before_ms + (last->to_ms - last->from_ms) : 0;
		s->list[kept++] = next;
	}
	s->count = kept;
}

int report_periods_set(struct report_periods *s, const struct view_delay *delays, size_t count)
{
	s->count = 0;
	if (array_reserve(s->list, &s->capacity, count + 1) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		int64_t to = delays[i].to_ms < 0 ? INT64_MAX : delays[i].to_ms;
		if (to > delays[i].from_ms)
			s->list[s->count++] = (struct report_period){.from_ms = delays[i].from_ms, .to_ms = to};
	}
	if (s->count)
		qsort(s->list, s->count, sizeof(*s->list), by_start);
	merge(s);
	return 0;
}

void report_periods_finish(struct report_periods *s)
{
	free(s->list);
}

size_t report_periods_after(const struct report_periods *s, int64_t time_ms)
{
	size_t low = 0, high = s->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (s->list[middle].to_ms > time_ms)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* How much of the time before this moment is inside of the periods. */
static int64_t inside_before(const struct report_periods *s, int64_t time_ms)
{
	size_t i = report_periods_after(s, time_ms);
	if (i < s->count && s->list[i].from_ms < time_ms)
		return s->list[i].before_ms + (time_ms - s->list[i].from_ms);
	if (i == 0)
		return 0;
	return s->list[i - 1].before_ms + (s->list[i - 1].to_ms - s->list[i - 1].from_ms);
}

int64_t report_periods_outside(const struct report_periods *s, int64_t from_ms, int64_t to_ms)
{
	return to_ms > from_ms ? to_ms - from_ms - (inside_before(s, to_ms) - inside_before(s, from_ms)) : 0;
}
