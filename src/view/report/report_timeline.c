/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/display.h"
#include "base/signals.h"
#include "base/units.h"
#include "view/report/html.h"
#include "view/report/report_chart.h"

/* A block with its text takes about 200 bytes. */
#define MAX_BLOCKS 20000

#define LANE_HEIGHT   22 /* of a GPU with one lane; several lanes share LANES_HEIGHT */
#define LANES_HEIGHT  44
#define FAILED_HEIGHT 4

const char *report_gpu_label(const struct report_gpu *g, char buf[REPORT_GPU_LABEL])
{
	if (g->id == REPORT_NO_GPU)
		snprintf(buf, REPORT_GPU_LABEL, "no GPU");
	else if (g->id >= REPORT_NODE_GPUS && g->name)
		snprintf(buf, REPORT_GPU_LABEL, "%s", g->name);
	else
		snprintf(buf, REPORT_GPU_LABEL, "GPU %d", g->id);
	return buf;
}

const char *report_outcome(const char *reason, const struct view_attempt *a, char buf[REPORT_OUTCOME])
{
	buf[0] = '\0';
	if (reason && *reason)
		snprintf(buf, REPORT_OUTCOME, "%s", reason);
	else if (a && a->signal)
		snprintf(buf, REPORT_OUTCOME, "%s", signal_name(a->signal));
	else if (a && a->exit_code > 0)
		snprintf(buf, REPORT_OUTCOME, "exit %d", a->exit_code);
	return buf;
}

/* One span, or several that are each too narrow to be visible. */
struct block {
	int x, end;
	bool narrow;
	size_t count, failed;
	const struct report_span *first, *last;
};

typedef void block_fn(void *context, const struct block *b);

/* Calls fn for the blocks of a lane, from left to right; returns their number. */
static size_t each_block(
	const struct report_gpu *g, unsigned lane, const struct report_axis *a, int pixel, block_fn *fn, void *context)
{
	struct block b = {0};
	size_t count = 0;
	for (size_t i = 0; i < g->num_spans; i++) {
		const struct report_span *s = &g->spans[i];
		if (s->lane != lane)
			continue;
		int x = report_axis_x(a, s->start_ms), end = report_axis_x(a, s->end_ms);
		bool narrow = end - x < pixel, failed = s->attempt->state == VIEW_JOB_FAILED;
		if (b.count && b.narrow && narrow && x - b.end < pixel) {
			b.end = end > b.end ? end : b.end;
			b.count++;
			b.failed += failed;
			b.last = s;
			continue;
		}
		if (b.count && fn)
			fn(context, &b);
		count++;
		b = (struct block){x, end, narrow, 1, failed, s, s};
	}
	if (b.count && fn)
		fn(context, &b);
	return count;
}

/* The finest resolution that keeps the page within MAX_BLOCKS. */
static int choose_pixel(const struct report_facts *f, const struct report_axis *a)
{
	for (int pixel = REPORT_PIXEL;; pixel *= 2) {
		size_t blocks = 0;
		for (size_t i = 0; i < f->num_gpus; i++)
			for (unsigned lane = 0; lane < f->gpus[i].num_lanes; lane++)
				blocks += each_block(&f->gpus[i], lane, a, pixel, NULL, NULL);
		if (blocks <= MAX_BLOCKS || pixel >= REPORT_WIDTH)
			return pixel;
	}
}

struct drawing {
	struct text *t;
	int pixel;
	int y, height;
	size_t drawn;
	bool files;
};

static const char *class_of(const struct block *b, size_t number)
{
	if (b->count > 1)
		return b->failed == b->count ? "f" : "m";
	switch (b->first->attempt->state) {
	case VIEW_JOB_FAILED:
		return "f";
	case VIEW_JOB_CANCELLED:
		return "x";
	case VIEW_JOB_RUNNING:
		return "r";
	default:
		/* Make neighbors distinguishable. */
		return number % 2 ? "c" : "d";
	}
}

static void block_words(struct text *t, const struct block *b, bool files)
{
	const struct report_span *s = b->first;
	char duration[UNITS_ROOM], outcome[REPORT_OUTCOME];
	if (b->count > 1) {
		if (files)
			text_appendf(t, "%zu files", b->count);
		else
			text_appendf(t, "%zu jobs, %" PRIu64 " to %" PRIu64, b->count, s->job->id, b->last->job->id);
		if (b->failed)
			text_appendf(t, ", %zu failed", b->failed);
		return;
	}
	const struct view_attempt *a = s->attempt;
	int64_t ms = a->duration_ms >= 0 ? a->duration_ms : s->end_ms - a->start_ms;
	if (!files)
		text_appendf(t, "job %" PRIu64 ": ", s->job->id);
	html_text(t, s->job->name ? s->job->name : s->job->command, 60);
	text_appendf(t, ", %s, %s", view_job_state_name(a->state), units_format_duration((uint64_t)ms, duration));
	report_outcome(a->state == VIEW_JOB_COMPLETED ? NULL : a->reason, a, outcome);
	if (outcome[0] && strcmp(outcome, view_job_state_name(a->state)) != 0) {
		text_append_string(t, ", ");
		html_text(t, outcome, 60);
	}
}

static void draw_block(void *context, const struct block *b)
{
	struct drawing *d = context;
	int width = b->end - b->x;
	/* Leave a thin gap between neighbors that are wide enough. */
	width = width < d->pixel ? d->pixel : width > 3 * REPORT_PIXEL ? width - REPORT_PIXEL / 2 : width;
	text_appendf(d->t, "<path class=\"%s\" d=\"M%d %dh%dv%dh-%dz\"><title>", class_of(b, d->drawn++), b->x, d->y,
		width, d->height, width);
	block_words(d->t, b, d->files);
	text_append_string(d->t, "</title></path>\n");
}

static bool is_narrow(const struct report_axis *a, const struct report_span *s, int pixel)
{
	return report_axis_x(a, s->end_ms) - report_axis_x(a, s->start_ms) < pixel;
}

/* Marks failures that are too narrow to be visible, or merged with other spans. */
static void draw_failed(struct text *t, const struct report_gpu *g, const struct report_axis *a, int pixel, int y)
{
	int begun = -1, end = -1;
	bool any = false;
	for (size_t i = 0; i <= g->num_spans; i++) {
		const struct report_span *s = i < g->num_spans ? &g->spans[i] : NULL;
		if (s && (s->attempt->state != VIEW_JOB_FAILED || !is_narrow(a, s, pixel)))
			continue;
		int x = s ? report_axis_x(a, s->end_ms) - pixel : 0;
		x = x < 0 ? 0 : x;
		if (s && begun >= 0 && x >= begun && x <= end) {
			end = x + pixel > end ? x + pixel : end;
			continue;
		}
		if (begun >= 0) {
			text_appendf(t, "%sM%d %dh%dv%dh-%dz", any ? "" : "<path class=\"f\" d=\"", begun, y,
				end - begun, FAILED_HEIGHT, end - begun);
			any = true;
		}
		begun = x;
		end = x + pixel;
	}
	if (any)
		text_append_string(t, "\"/>\n");
}

static void draw_gpu(struct text *t, const struct report_gpu *g, const struct report_axis *a, int pixel, bool files)
{
	char label[REPORT_GPU_LABEL];
	unsigned lanes = g->num_lanes ? g->num_lanes : 1;
	int lane_height = lanes == 1 ? LANE_HEIGHT : LANES_HEIGHT / (int)lanes > 3 ? LANES_HEIGHT / (int)lanes : 3;
	int height = lane_height * (int)lanes + FAILED_HEIGHT;
	report_gpu_label(g, label);
	text_appendf(t,
		"<div class=\"row\"><span class=\"label\">%s</span>"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 %d %d\" height=\"%d\" "
		"preserveAspectRatio=\"none\"><title>%s: %zu attempt%s, %zu failed</title>",
		label, REPORT_WIDTH, height, height, label, g->num_spans, g->num_spans == 1 ? "" : "s", g->num_failed);
	report_axis_grid(t, a, height);
	struct drawing d = {.t = t, .pixel = pixel, .height = lane_height - (lanes > 1), .files = files};
	for (unsigned lane = 0; lane < g->num_lanes; lane++, d.y += lane_height)
		each_block(g, lane, a, pixel, draw_block, &d);
	draw_failed(t, g, a, pixel, height - FAILED_HEIGHT + 1);
	text_append_string(t, "</svg></div>\n");
}

void report_timeline(struct text *t, const struct report_facts *f, const struct report_axis *a)
{
	int pixel = choose_pixel(f, a);
	text_append_string(t, "<div class=\"chart\">\n");
	for (size_t i = 0; i < f->num_gpus; i++)
		draw_gpu(t, &f->gpus[i], a, pixel, f->files);
	report_axis_labels(t, a);
	text_append_string(t, "</div>\n");
}
