/* SPDX-License-Identifier: MIT */
/*
 * The GPUs, in as much detail as fits: a line and a history plot for each, a line for each, or several per line; beyond
 * that they scroll.
 */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "view/top/top.h"

#define MIN_LINE   70 /* columns needed for a line */
#define MIN_CELL   20
#define MAX_PLOT   4 /* rows */
#define MAX_VALUES 1024

struct gpus_plan {
	int columns; /* of GPUs */
	int lines;   /* rows of GPUs */
	int plot;    /* rows of plot below each line; -1: several GPUs per line */
};

static struct gpus_plan make_plan(int num_gpus, int columns, int max_rows)
{
	struct gpus_plan best = {.plot = -1};
	for (int c = 1; c <= 4 && columns / c >= MIN_LINE; c++) {
		int lines = (num_gpus + c - 1) / c;
		int plot = max_rows / lines - 1;
		plot = plot > MAX_PLOT ? MAX_PLOT : plot;
		if (plot > best.plot)
			best = (struct gpus_plan){c, lines, plot};
	}
	if (best.plot >= 0)
		return best;
	/* Cells as wide as possible. */
	do
		best.lines = (num_gpus + best.columns) / (best.columns + 1);
	while (columns / (++best.columns + 1) >= MIN_CELL && best.lines > max_rows);
	return best;
}

static const char *gigabytes(int64_t bytes, char buf[UNITS_ROOM])
{
	int64_t tenths = (bytes * 10 + (INT64_C(1) << 29)) >> 30;
	if (tenths >= 1000)
		snprintf(buf, UNITS_ROOM, "%lld", (long long)(tenths + 5) / 10);
	else
		snprintf(buf, UNITS_ROOM, "%lld.%lld", (long long)tenths / 10, (long long)tenths % 10);
	return buf;
}

static double memory_part(const struct view_gpu *g)
{
	if (g->memory_used_bytes < 0 || g->memory_total_bytes <= 0)
		return -1;
	return (double)g->memory_used_bytes / (double)g->memory_total_bytes;
}

static unsigned memory_style(const struct view_gpu *g)
{
	return memory_part(g) > 0.95 ? SCREEN_YELLOW : SCREEN_CYAN;
}

static unsigned id_style(const struct view_gpu *g)
{
	/* An idle GPU is not dim: its number is as important as the others. */
	return SCREEN_BOLD | (g->status == VIEW_GPU_IDLE ? SCREEN_PLAIN : screen_style(palette_of_gpu(g->status)));
}

static void memory_words(const struct view_gpu *g, char *out, size_t size)
{
	char used[UNITS_ROOM], total[UNITS_ROOM];
	if (g->memory_used_bytes < 0)
		snprintf(out, size, "–");
	else if (g->memory_total_bytes <= 0)
		snprintf(out, size, "%s GiB", gigabytes(g->memory_used_bytes, used));
	else
		snprintf(out, size, "%s/%s GiB", gigabytes(g->memory_used_bytes, used),
			gigabytes(g->memory_total_bytes, total));
}

static void memory_bar(struct screen *s, int row, int column, int width, const struct view_gpu *g)
{
	if (memory_part(g) >= 0)
		screen_bar_reserved(s, row, column, width, memory_style(g), memory_part(g),
			(double)g->memory_reserved_bytes / (double)g->memory_total_bytes);
}

static void util_words(const struct view_gpu *g, char *out, size_t size)
{
	if (g->utilization_percent < 0)
		snprintf(out, size, "–");
	else
		snprintf(out, size, "%d%%", g->utilization_percent);
}

/* ---- History ------------------------------------------------------------------------------- */

/* At most `max` values of 0…100, oldest first. */
static size_t past(
	const struct top *t, const struct view_gpu *g, bool memory, int *values, size_t max, int64_t *ret_span_ms)
{
	struct view_sample samples[MAX_VALUES];
	size_t n = view_history(t->model, g->id, samples, max < MAX_VALUES ? max : MAX_VALUES);
	for (size_t i = 0; i < n; i++) {
		const struct view_sample *s = &samples[i];
		if (!memory)
			values[i] = s->utilization_percent;
		else if (s->memory_used_bytes < 0 || g->memory_total_bytes <= 0)
			values[i] = -1;
		else
			values[i] = (int)(s->memory_used_bytes * 100 / g->memory_total_bytes);
	}
	*ret_span_ms = n ? samples[n - 1].time_ms - samples[0].time_ms : 0;
	return n;
}

/* The label of the plot, with its time span; covers the oldest values. */
static void label_plot(struct screen *s, int row, int column, int width, bool memory, int64_t span_ms)
{
	char words[48], span[UNITS_ROOM];
	const char *name = memory ? "memory" : "utilization";
	snprintf(words, sizeof(words), "%s, %s ", name, units_format_duration((uint64_t)span_ms, span));
	if (span_ms < 10 * 1000 || (int)strlen(words) * 2 > width)
		snprintf(words, sizeof(words), "%s ", name);
	if ((int)strlen(words) * 2 < width)
		screen_put(s, row, column, width, SCREEN_DIM, words);
}

static void plot(const struct top *t, struct screen *s, int row, int column, int width, int height,
	const struct view_gpu *g, bool memory)
{
	int values[MAX_VALUES];
	int64_t span_ms = 0;
	size_t max = 2 * (size_t)(width > 0 ? width : 0);
	size_t n = past(t, g, memory, values, max < MAX_VALUES ? max : MAX_VALUES, &span_ms);
	screen_plot(s, row, column, width, height, memory ? memory_style(g) : SCREEN_BLUE, values, n);
	label_plot(s, row, column, width, memory, span_ms);
}

/* ---- A line ---------------------------------------------------------------------------------- */

static int draw_id(struct screen *s, int row, int column, const struct view_gpu *g)
{
	char words[16];
	snprintf(words, sizeof(words), "%d", g->id);
	screen_put_right(s, row, column, 3, id_style(g), words);
	return 4;
}

/* The rest of a line: memory of others, reserved memory, jobs, temperature, power, name. */
static void draw_rest(struct screen *s, int row, int column, int width, const struct view_gpu *g)
{
	char words[160], size[UNITS_ROOM];
	int n = 0;
	if (g->memory_foreign_bytes > 0) {
		n = snprintf(words, sizeof(words), "others %s GiB ", gigabytes(g->memory_foreign_bytes, size));
		column += screen_put(s, row, column, width, SCREEN_YELLOW, words);
		width -= n;
		n = 0;
	}
	if (g->memory_reserved_bytes > 0 && g->memory_reserved_bytes > g->memory_used_bytes)
		n += snprintf(words + n, sizeof(words) - (size_t)n, "%s GiB reserved ",
			gigabytes(g->memory_reserved_bytes, size));
	if (g->num_tasks > 0)
		n += snprintf(
			words + n, sizeof(words) - (size_t)n, "%d job%s ", g->num_tasks, g->num_tasks == 1 ? "" : "s");
	if (g->temperature_celsius >= 0)
		n += snprintf(words + n, sizeof(words) - (size_t)n, "%d°C ", g->temperature_celsius);
	if (g->power_milliwatts >= 0)
		n += snprintf(words + n, sizeof(words) - (size_t)n, "%lldW ", (long long)(g->power_milliwatts / 1000));
	/* All names of this vendor begin with its name. */
	const char *name = g->name ? g->name : "";
	name += strncmp(name, "NVIDIA ", 7) == 0 ? 7 : 0;
	snprintf(words + n, sizeof(words) - (size_t)n, "%s", name);
	screen_put(s, row, column, width, SCREEN_DIM, words);
}

static void draw_line(
	const struct top *t, struct screen *s, int row, int column, int width, const struct view_gpu *g, int plot_rows)
{
	char words[2 * UNITS_ROOM + sizeof("/ GiB")];
	int at = column + draw_id(s, row, column, g), end = column + width - 1;
	if (g->status == VIEW_GPU_ERROR) {
		screen_put(s, row, at, end - at, SCREEN_RED, g->error ? g->error : "not available");
		return;
	}
	/* The bars share the space that their texts and the history leave. */
	int bar = (width - 4 - 24 - 12) / 5;
	bar = bar > 30 ? 30 : bar;
	memory_words(g, words, sizeof(words));
	at += screen_put(s, row, at, 4, SCREEN_DIM, "mem ");
	memory_bar(s, row, at, bar, g);
	at += bar + 1;
	screen_put_right(s, row, at, 13, SCREEN_PLAIN, words);
	at += 15;
	util_words(g, words, sizeof(words));
	at += screen_put(s, row, at, 5, SCREEN_DIM, "util ");
	if (g->utilization_percent >= 0)
		screen_bar(s, row, at, bar, SCREEN_BLUE, g->utilization_percent / 100.0);
	at += bar + 1;
	screen_put_right(s, row, at, 4, SCREEN_PLAIN, words);
	at += 6;
	draw_rest(s, row, at, end - at, g);
	if (plot_rows > 0) {
		int half = (width - 6) / 2;
		plot(t, s, row + 1, column + 4, half, plot_rows, g, true);
		plot(t, s, row + 1, column + 4 + half + 1, half, plot_rows, g, false);
	}
}

/* ---- A cell ------------------------------------------------------------------------------------- */

static void draw_cell(struct screen *s, int row, int column, int width, const struct view_gpu *g)
{
	char words[64], size[UNITS_ROOM];
	int at = column + draw_id(s, row, column, g), end = column + width - 2;
	if (g->status == VIEW_GPU_ERROR) {
		screen_put(s, row, at, end - at, SCREEN_RED, g->error ? g->error : "not available");
		return;
	}
	int bar = end - at - 12;
	memory_bar(s, row, at, bar, g);
	at += bar + 1;
	if (g->memory_used_bytes >= 0)
		snprintf(words, sizeof(words), "%sG", gigabytes(g->memory_used_bytes, size));
	else
		snprintf(words, sizeof(words), "–");
	screen_put_right(s, row, at, 6, SCREEN_PLAIN, words);
	util_words(g, words, sizeof(words));
	screen_put_right(s, row, at + 6, 5, SCREEN_BLUE, words);
}

/* ---- All GPUs ------------------------------------------------------------------------------------- */

static void tell_hidden(const struct top *t, struct screen *s, int row, int shown, int lines)
{
	char words[48];
	int n = snprintf(
		words, sizeof(words), " lines %d–%d of %d, { } ", t->gpu_first + 1, t->gpu_first + shown, lines);
	screen_put(s, row, s->columns - n + 2, n, SCREEN_DIM | SCREEN_REVERSE, words);
}

int top_draw_gpus(struct top *t, struct screen *s, int row, int max_rows)
{
	int num_gpus = (int)view_num_gpus(t->model);
	t->gpu_hidden = 0;
	if (num_gpus == 0 || max_rows < 1)
		return 0;
	struct gpus_plan p = make_plan(num_gpus, s->columns, max_rows);
	int height = p.plot > 0 ? 1 + p.plot : 1;
	int shown = max_rows / height < p.lines ? max_rows / height : p.lines;
	if (t->gpu_first > p.lines - shown)
		t->gpu_first = p.lines - shown;
	t->gpu_hidden = p.lines - shown - t->gpu_first;
	int width = s->columns / p.columns;
	/* Column by column, from top to bottom. */
	for (int i = 0; i < num_gpus; i++) {
		int line = i % p.lines - t->gpu_first, column = i / p.lines * width;
		if (line < 0 || line >= shown)
			continue;
		const struct view_gpu *g = view_gpu(t->model, (size_t)i);
		if (p.plot >= 0)
			draw_line(t, s, row + line * height, column, width, g, p.plot);
		else
			draw_cell(s, row + line, column, width, g);
	}
	if (shown < p.lines)
		tell_hidden(t, s, row + shown * height - 1, shown, p.lines);
	return shown * height;
}
