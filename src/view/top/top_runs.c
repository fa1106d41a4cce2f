/* SPDX-License-Identifier: MIT */
/* The running launches and maps: a line for each, and a line for its results per GPU if there is space. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/display.h"
#include "base/text.h"
#include "base/units.h"
#include "view/top/top.h"

#define BAR      12
#define MIN_NAME 16

static void append_rate(struct text *t, double rate)
{
	if (rate >= 1)
		text_appendf(t, "  %.*f/s", rate < 100 ? 1 : 0, rate);
	else if (rate > 0)
		text_appendf(t, "  %.1f/min", rate * 60);
}

/* "45%  12/200  2 failed  3.1/s  RTF 0.012  about 3 min to go" */
static void append_figures(struct text *t, const struct view_run *r)
{
	char eta[UNITS_ROOM];
	if (r->fraction >= 0)
		text_appendf(t, "%3d%%  ", (int)(r->fraction * 100));
	text_appendf(t, "%" PRIu64, r->done + r->failed);
	if (r->total >= 0)
		text_appendf(t, "/%" PRId64, r->total);
	if (r->failed)
		text_appendf(t, "  %" PRIu64 " failed", r->failed);
	append_rate(t, r->rate);
	if (r->rtf >= 0)
		text_appendf(t, "  RTF %.3g", r->rtf);
	if (r->ending)
		text_append_string(t, "  ending");
	else if (r->eta_ms >= 0)
		text_appendf(t, "  %s to go", units_format_about((uint64_t)r->eta_ms, eta));
	else if (r->watching && r->running == 0)
		text_append_string(t, "  watching");
}

/* Show the end of a long path. */
static void draw_name(struct screen *s, int row, int at, int width, const char *name)
{
	int length = (int)display_width(name, strlen(name));
	const char *end = name;
	while (length > width - 1 && (end = strchr(end + 1, '/')))
		length = (int)display_width(end, strlen(end));
	if (end && end != name)
		at += screen_put(s, row, at, 1, SCREEN_DIM, "…");
	screen_put(s, row, at, width, SCREEN_PLAIN, end ? end : name);
}

static void draw_run(struct screen *s, int row, const struct view_run *r)
{
	cleanup_(text_finish) struct text figures = {0};
	append_figures(&figures, r);
	int width = (int)display_width(text_string(&figures), figures.length), end = s->columns - 1;
	const int at = 8;
	screen_put(s, row, 1, at - 2, SCREEN_BOLD | SCREEN_GREEN, r->kind);
	int name = end - width - 1 - at;
	bool bar = name - BAR - 1 >= MIN_NAME && r->fraction >= 0;
	if (name < 8) { /* on a narrow screen, the figures are more important */
		screen_put(s, row, at, end - at, r->failed ? SCREEN_YELLOW : SCREEN_PLAIN, text_string(&figures));
		return;
	}
	if (bar) {
		name -= BAR + 1;
		screen_bar(s, row, at + name + 1, BAR, SCREEN_GREEN, r->fraction);
	}
	draw_name(s, row, at, name, r->name);
	screen_put(s, row, end - width, width, r->failed ? SCREEN_YELLOW : SCREEN_PLAIN, text_string(&figures));
}

/* "GPU 0  12, 1 failed, RTF 0.01  a.wav" each, as many as fit. */
static void draw_run_gpus(struct screen *s, int row, const struct view_run *r)
{
	int at = 8;
	for (size_t i = 0; i < r->num_gpus && at < s->columns - 8; i++) {
		const struct view_run_gpu *g = &r->gpus[i];
		int room = (s->columns - at) / (int)(r->num_gpus - i) - 2;
		room = room < 14 ? 14 : room;
		cleanup_(text_finish) struct text words = {0};
		text_appendf(&words, "GPU %d  %" PRIu64, g->id, g->done + g->failed);
		if (g->failed)
			text_appendf(&words, ", %" PRIu64 " failed", g->failed);
		if (g->rtf >= 0)
			text_appendf(&words, ", RTF %.3g", g->rtf);
		if (g->task)
			text_appendf(&words, "  %s", g->task);
		screen_put(
			s, row, at, room < s->columns - at ? room : s->columns - at, SCREEN_DIM, text_string(&words));
		at += room + 2;
	}
}

int top_draw_runs(const struct top *t, struct screen *s, int row, int max_rows)
{
	int count = (int)view_num_runs(t->model);
	if (count == 0 || max_rows < 1)
		return 0;
	bool detailed = 2 * count <= max_rows;
	int each = detailed ? 2 : 1, shown = count * each <= max_rows ? count : max_rows;
	for (int i = 0; i < shown; i++) {
		const struct view_run *r = view_run(t->model, (size_t)i);
		if (shown < count && i == shown - 1) {
			screen_putf(s, row + i, 1, s->columns - 1, SCREEN_DIM, "and %d more", count - i);
			break;
		}
		draw_run(s, row + i * each, r);
		if (detailed)
			draw_run_gpus(s, row + i * each + 1, r);
	}
	return shown * each;
}
