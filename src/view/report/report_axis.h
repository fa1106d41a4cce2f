/* SPDX-License-Identifier: MIT */
/* The time axis, from left to right: positions and labels. */
#ifndef VIEW_REPORT_REPORT_AXIS_H
#define VIEW_REPORT_REPORT_AXIS_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

/* The internal width of charts, scaled to the page. Integers, because %f writes the locale's comma. */
#define REPORT_WIDTH 10000
/* About one pixel, on a page of 1000 pixels. */
#define REPORT_PIXEL 10

#define REPORT_TICKS      10
#define REPORT_TICK_LABEL 24

struct report_tick {
	int x;
	char label[REPORT_TICK_LABEL];
};

struct report_axis {
	int64_t from_ms, to_ms;
	int64_t step_ms;
	struct report_tick ticks[REPORT_TICKS];
	size_t num_ticks;
};

/* Ticks are at round local times of day. */
void report_axis_init(struct report_axis *a, int64_t from_ms, int64_t to_ms);
int report_axis_x(const struct report_axis *a, int64_t time_ms);

/* The smallest round time step that fits at most `most` times into the span. */
int64_t report_axis_step(int64_t span_ms, int64_t most);
/* The last round local time that is not after time_ms. */
int64_t report_axis_floor(int64_t time_ms, int64_t step_ms);

/* "Nov 15 22:12:54", local time. */
#define REPORT_MOMENT 32
const char *report_moment(int64_t time_ms, char buf[REPORT_MOMENT]);

/* The row of labels below a chart. */
void report_axis_labels(struct text *t, const struct report_axis *a);
/* Inside a chart: a line for each tick, `height` high. */
void report_axis_grid(struct text *t, const struct report_axis *a, int height);

#endif
