/* SPDX-License-Identifier: MIT */
/* Lines, areas and bars over time. */
#include "view/report/report_chart.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/units.h"

#define COLUMNS 500 /* points of a line, at most */
#define HEIGHT  1000

static void open_svg(struct text *t, int pixels)
{
	text_appendf(t,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 %d %d\" height=\"%d\" "
		"preserveAspectRatio=\"none\">",
		REPORT_WIDTH, HEIGHT, pixels);
}

/* ---- Utilization and memory --------------------------------------------------- */

/* Several samples combined: means of the known values. */
struct point {
	int64_t time_ms;
	int64_t util, memory; /* sums, or per mille of the height after points_of() */
	int num_util, num_memory;
	bool gap; /* no samples in the time before it */
};

static int by_value(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

/* The longest time between two samples; a longer time is a gap. */
static int64_t longest_step(const struct report_gpu *g)
{
	if (g->num_samples < 2)
		return INT64_MAX;
	int64_t *steps = malloc((g->num_samples - 1) * sizeof(*steps));
	if (!steps)
		return INT64_MAX;
	for (size_t i = 1; i < g->num_samples; i++)
		steps[i - 1] = g->samples[i].time_ms - g->samples[i - 1].time_ms;
	qsort(steps, g->num_samples - 1, sizeof(*steps), by_value);
	int64_t median = steps[(g->num_samples - 1) / 2];
	free(steps);
	return 4 * (median > 0 ? median : 1);
}

static int64_t memory_scale(const struct report_gpu *g)
{
	int64_t scale = g->memory_total_mb > 0 ? g->memory_total_mb << 20 : 1;
	for (size_t i = 0; i < g->num_samples; i++)
		if (g->samples[i].memory_used_bytes > scale)
			scale = g->samples[i].memory_used_bytes;
	return scale;
}

static size_t points_of(const struct report_gpu *g, const struct report_axis *a, struct point points[COLUMNS])
{
	int64_t step = longest_step(g), scale = memory_scale(g), before = INT64_MIN;
	size_t n = 0;
	int column = -1;
	for (size_t i = 0; i < g->num_samples; i++) {
		const struct view_sample *s = &g->samples[i];
		int at = report_axis_x(a, s->time_ms) * (COLUMNS - 1) / REPORT_WIDTH;
		if (at != column)
			points[n++] = (struct point){
				.time_ms = s->time_ms, .gap = before != INT64_MIN && s->time_ms - before > step};
		column = at;
		before = s->time_ms;
		struct point *p = &points[n - 1];
		if (s->utilization_percent >= 0) {
			p->util += s->utilization_percent;
			p->num_util++;
		}
		if (s->memory_used_bytes >= 0) {
			p->memory += s->memory_used_bytes / (scale / HEIGHT + 1);
			p->num_memory++;
		}
	}
	for (size_t i = 0; i < n; i++) {
		points[i].util = points[i].num_util ? points[i].util * HEIGHT / 100 / points[i].num_util : -1;
		points[i].memory = points[i].num_memory ? points[i].memory / points[i].num_memory : -1;
	}
	return n;
}

static int64_t value_of(const struct point *p, bool memory)
{
	return memory ? p->memory : p->util;
}

/* Starts a new piece after a gap; an area goes down to the baseline at both ends of each piece. */
static void line(
	struct text *t, const struct point *points, size_t n, const struct report_axis *a, bool memory, bool area)
{
	bool begun = false;
	int x = 0;
	text_appendf(t, "<path class=\"%s\" d=\"", memory ? "memory" : area ? "util-area" : "util");
	for (size_t i = 0; i < n; i++) {
		int64_t value = value_of(&points[i], memory);
		if (begun && (value < 0 || points[i].gap)) {
			if (area)
				text_appendf(t, "L%d %dz", x, HEIGHT);
			begun = false;
		}
		if (value < 0)
			continue;
		x = report_axis_x(a, points[i].time_ms);
		int y = HEIGHT - (int)value;
		if (begun)
			text_appendf(t, "L%d %d", x, y);
		else if (area)
			text_appendf(t, "M%d %dL%d %d", x, HEIGHT, x, y);
		else
			text_appendf(t, "M%d %d", x, y);
		begun = true;
	}
	if (begun && area)
		text_appendf(t, "L%d %dz", x, HEIGHT);
	text_append_string(t, "\"/>");
}

static void usage_words(struct text *t, const struct report_gpu *g)
{
	char label[REPORT_GPU_LABEL], size[UNITS_ROOM];
	text_append_string(t, report_gpu_label(g, label));
	if (g->mean_util >= 0)
		text_appendf(t, ": utilization %d%% on average", g->mean_util);
	if (g->peak_mem_mb >= 0)
		text_appendf(t, ", at most %s of memory used", units_format_size((uint64_t)g->peak_mem_mb << 20, size));
	if (g->memory_total_mb >= 0)
		text_appendf(t, " of %s", units_format_size((uint64_t)g->memory_total_mb << 20, size));
}

void report_usage(struct text *t, const struct report_facts *f, const struct report_axis *a)
{
	struct point points[COLUMNS + 1];
	char label[REPORT_GPU_LABEL];
	text_append_string(t, "<div class=\"chart\">\n");
	for (size_t i = 0; i < f->num_gpus; i++) {
		const struct report_gpu *g = &f->gpus[i];
		if (g->num_samples == 0)
			continue;
		size_t n = points_of(g, a, points);
		text_appendf(t, "<div class=\"row\"><span class=\"label\">%s</span>", report_gpu_label(g, label));
		open_svg(t, 40);
		text_append_string(t, "<title>");
		usage_words(t, g);
		text_append_string(t, "</title>");
		report_axis_grid(t, a, HEIGHT);
		line(t, points, n, a, false, true);
		line(t, points, n, a, false, false);
		line(t, points, n, a, true, false);
		text_append_string(t, "</svg></div>\n");
	}
	report_axis_labels(t, a);
	text_append_string(t, "</div>\n");
}

/* ---- Throughput ------------------------------------------------------------------ */

#define MAX_BARS 120

struct bar {
	size_t ended[VIEW_JOB_STATES];
	size_t sum;
};

/* The next round number that is not smaller. */
static size_t round_up(size_t n)
{
	static const size_t round[] = {10, 12, 15, 20, 25, 30, 40, 50, 60, 80};
	if (n <= 10)
		return n;
	for (size_t power = 1;; power *= 10)
		for (size_t i = 0; i < sizeof(round) / sizeof(*round); i++)
			if (round[i] * power >= n)
				return round[i] * power;
}

static void bar_words(struct text *t, const struct bar *b, int64_t at)
{
	char moment[REPORT_MOMENT];
	text_appendf(t, "<title>%s: %zu completed", report_moment(at, moment), b->ended[VIEW_JOB_COMPLETED]);
	if (b->ended[VIEW_JOB_FAILED])
		text_appendf(t, ", %zu failed", b->ended[VIEW_JOB_FAILED]);
	if (b->ended[VIEW_JOB_CANCELLED])
		text_appendf(t, ", %zu cancelled", b->ended[VIEW_JOB_CANCELLED]);
	text_append_string(t, "</title>");
}

static void draw_bar(struct text *t, const struct bar *b, int x, int width, size_t top)
{
	static const struct {
		enum view_job_state state;
		char class;
	} parts[] = {{VIEW_JOB_COMPLETED, 'c'}, {VIEW_JOB_FAILED, 'f'}, {VIEW_JOB_CANCELLED, 'x'}};
	size_t below = 0;
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		size_t n = b->ended[parts[i].state];
		if (n == 0)
			continue;
		int y = HEIGHT - (int)((below + n) * HEIGHT / top), bottom = HEIGHT - (int)(below * HEIGHT / top);
		text_appendf(
			t, "<path class=\"%c\" d=\"M%d %dh%dV%dh-%dz\"/>", parts[i].class, x, y, width, bottom, width);
		below += n;
	}
}

static void draw_bars(struct text *t, const struct bar *bars, size_t n, const struct report_axis *a, int64_t first,
	int64_t step, size_t top)
{
	for (size_t i = 0; i < n; i++) {
		if (bars[i].sum == 0)
			continue;
		int64_t at = first + (int64_t)i * step;
		int x = report_axis_x(a, at), width = report_axis_x(a, at + step) - x;
		width = width > 3 * REPORT_PIXEL ? width - REPORT_PIXEL : width > 0 ? width : 1;
		text_append_string(t, "<g>");
		bar_words(t, &bars[i], at);
		draw_bar(t, &bars[i], x, width, top);
		text_append_string(t, "</g>\n");
	}
}

/* Steps are round numbers: "5 min". */
static const char *step_words(int64_t ms, char buf[UNITS_ROOM])
{
	static const struct {
		int64_t ms;
		const char *name;
	} units[] = {{86400000, "d"}, {3600000, "h"}, {60000, "min"}, {1000, "s"}, {1, "ms"}};
	size_t i = 0;
	while (ms % units[i].ms)
		i++;
	snprintf(buf, UNITS_ROOM, "%" PRId64 " %s", ms / units[i].ms, units[i].name);
	return buf;
}

void report_throughput(struct text *t, const struct report_facts *f, const struct report_axis *a)
{
	struct bar bars[MAX_BARS + 2] = {0};
	char words[UNITS_ROOM];
	/* If there are few ends, use fewer bars, with some ends in each. */
	int64_t most = (int64_t)f->num_ends / 4;
	most = most > MAX_BARS ? MAX_BARS : most < 20 ? 20 : most;
	int64_t step = report_axis_step(a->to_ms - a->from_ms, most);
	int64_t first = report_axis_floor(a->from_ms, step);
	size_t n = 0, top = 1;
	char number[UNITS_ROOM];
	for (size_t i = 0; i < f->num_ends; i++) {
		int64_t at = (f->ends[i].end_ms - first) / step;
		if (at < 0 || at > MAX_BARS + 1)
			continue;
		struct bar *b = &bars[at];
		b->ended[f->ends[i].attempt->state]++;
		top = ++b->sum > top ? b->sum : top;
		n = (size_t)at + 1 > n ? (size_t)at + 1 : n;
	}
	top = round_up(top);
	text_appendf(t, "<div class=\"chart\"><div class=\"row tall\"><span class=\"label\"><b>%s</b> per %s</span>",
		units_format_count(top, number), step_words(step, words));
	open_svg(t, 110);
	text_appendf(t, "<title>Attempts that ended, per %s; the top of the chart is %zu</title>", words, top);
	report_axis_grid(t, a, HEIGHT);
	draw_bars(t, bars, n, a, first, step, top);
	text_append_string(t, "</svg></div>\n");
	report_axis_labels(t, a);
	text_append_string(t, "</div>\n");
}

/* ---- Waiting jobs ------------------------------------------------------------------- */

void report_depth_chart(struct text *t, const struct report_facts *f, const struct report_axis *a)
{
	size_t most[COLUMNS] = {0};
	char number[UNITS_ROOM];
	size_t top = 1, now = 0, next = 0;
	for (int column = 0; column < COLUMNS; column++) {
		/* The most waiting jobs at any moment of the column. */
		int64_t until = a->from_ms + (a->to_ms - a->from_ms) / COLUMNS * (column + 1);
		if (column == COLUMNS - 1)
			until = a->to_ms;
		size_t max = now;
		for (; next < f->num_depth && f->depth[next].time_ms <= until; next++) {
			now = f->depth[next].waiting;
			if (f->depth[next].time_ms >= a->from_ms || next + 1 == f->num_depth)
				max = now > max ? now : max;
			else
				max = now;
		}
		most[column] = max;
		top = max > top ? max : top;
	}
	top = round_up(top);
	text_appendf(t, "<div class=\"chart\"><div class=\"row tall\"><span class=\"label\"><b>%s</b> waiting</span>",
		units_format_count(top, number));
	open_svg(t, 80);
	text_appendf(t, "<title>Jobs that waited for a GPU; the top of the chart is %zu</title>", top);
	report_axis_grid(t, a, HEIGHT);
	text_appendf(t, "<path class=\"depth\" d=\"M0 %d", HEIGHT);
	for (int column = 0; column < COLUMNS; column++) {
		if (column > 0 && most[column] == most[column - 1])
			continue;
		text_appendf(
			t, "H%dV%d", column * (REPORT_WIDTH / COLUMNS), HEIGHT - (int)(most[column] * HEIGHT / top));
	}
	text_appendf(t, "H%dV%dz\"/></svg></div>\n", REPORT_WIDTH, HEIGHT);
	report_axis_labels(t, a);
	text_append_string(t, "</div>\n");
}
