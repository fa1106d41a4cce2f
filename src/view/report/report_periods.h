/* SPDX-License-Identifier: MIT */
/* Periods of time, sorted and without overlaps, such as the pauses of a queue. */
#ifndef VIEW_REPORT_PERIODS_H
#define VIEW_REPORT_PERIODS_H

#include <stddef.h>
#include <stdint.h>

#include "view/model/model.h"

struct report_period {
	int64_t from_ms, to_ms;
	int64_t before_ms; /* total length of the periods before this one */
};

/* Begin with {0}. */
struct report_periods {
	struct report_period *list;
	size_t count, capacity;
};

/*
 * Replaces the periods. The delays may come in any order and overlap; one that is not over yet lasts forever. Returns 0
 * or -ENOMEM.
 */
int report_periods_set(struct report_periods *s, const struct view_delay *delays, size_t count);
void report_periods_finish(struct report_periods *s);

/* The first period that ends after this time; s->count: there is none. */
size_t report_periods_after(const struct report_periods *s, int64_t time_ms);

/* How much of the time between two moments is outside of the periods. */
int64_t report_periods_outside(const struct report_periods *s, int64_t from_ms, int64_t to_ms);

#endif
