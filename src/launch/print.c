/* SPDX-License-Identifier: MIT */
#include "launch/print.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/display.h"
#include "base/sized.h"
#include "base/table.h"
#include "base/units.h"

#define MOST_FAILURES   20  /* listed failures */
#define LOADING_SHOWN_S 0.1 /* shorter loading times are not shown */
#define IDLE_SHOWN_S    0.1

static void put_row(struct table *t, enum terminal_color color, const struct gd_launch_gpu *g, const char *name)
{
	char text[UNITS_ROOM];
	table_cell(t, TERMINAL_BOLD, name);
	table_cellf(t, color, "%llu", (unsigned long long)g->files);
	table_cellf(t, g->failed ? TERMINAL_RED : color, "%llu", (unsigned long long)g->failed);
	table_cell(t, color, g->audio_seconds > 0 ? units_format_seconds(g->audio_seconds, text) : "-");
	table_cell(t, color, units_format_seconds(g->processing_seconds, text));
	if (g->audio_seconds > 0)
		table_cellf(t, color, "%.3g", g->processing_seconds / g->audio_seconds);
	else
		table_cell(t, color, "-");
	table_cellf(t, color, "%.0f%%", 100 * g->share);
}

static int append_table(struct text *out, const struct gd_launch_summary *s, bool colored)
{
	static const struct table_column columns[] = {{"GPU", true, false}, {"FILES", true, false},
		{"FAILED", true, false}, {"AUDIO", true, false}, {"PROCESSING", true, false}, {"RTF", true, false},
		{"SHARE", true, false}};
	cleanup_(table_finish) struct table t = {.columns = columns, .num_columns = sizeof(columns) / sizeof(*columns)};
	struct gd_launch_gpu total = {
		.files = s->files_done,
		.failed = s->files_failed,
		.audio_seconds = s->audio_seconds,
		.processing_seconds = s->processing_seconds,
		.share = s->files_done ? 1 : 0,
	};
	for (size_t i = 0; i < s->num_gpus; i++) {
		const struct gd_launch_gpu *g = s->gpus[i];
		char name[96];
		snprintf(name, sizeof(name), "%.64s%s%lld", g->node ? g->node : "", g->node ? ":" : "",
			(long long)g->gpu);
		put_row(&t, TERMINAL_NONE, g, name);
	}
	put_row(&t, TERMINAL_BOLD, &total, "all");
	return table_print(&t, terminal_width(), colored, out);
}

static void append_totals(struct text *out, const struct gd_launch_summary *s)
{
	char audio[UNITS_ROOM], wall[UNITS_ROOM];
	text_appendf(
		out, "%llu of %llu files done", (unsigned long long)s->files_done, (unsigned long long)s->files_total);
	if (s->files_failed)
		text_appendf(out, ", %llu failed", (unsigned long long)s->files_failed);
	if (s->files_skipped)
		text_appendf(out, ", %llu done before", (unsigned long long)s->files_skipped);
	if (s->files_left)
		text_appendf(out, ", %llu left", (unsigned long long)s->files_left);
	if (s->inputs_skipped)
		text_appendf(out, ", %llu input%s skipped", (unsigned long long)s->inputs_skipped,
			s->inputs_skipped == 1 ? "" : "s");
	text_appendf(out, "; %s", units_format_seconds(s->wall_seconds, wall));
	if (s->audio_seconds > 0)
		text_appendf(out, " for %s of audio (RTF %.3g)", units_format_seconds(s->audio_seconds, audio), s->rtf);
	if (s->loading_seconds >= LOADING_SHOWN_S)
		text_appendf(out, ", loading %s", units_format_seconds(s->loading_seconds, audio));
	if (s->idle_seconds >= IDLE_SHOWN_S)
		text_appendf(out, ", idle %s", units_format_seconds(s->idle_seconds, audio));
	if (s->files_done)
		text_appendf(out, ", speedup %.2f, skew %.0f%%", s->speedup, 100 * s->skew);
	text_append_char(out, '\n');
}

static void append_failures(struct text *out, const struct gd_launch_summary *s)
{
	for (size_t i = 0; i < s->num_failures && i < MOST_FAILURES; i++) {
		const struct gd_launch_failure *f = s->failures[i];
		text_append_string(out, i == 0 ? "\nFailed:\n  " : "  ");
		display_append(out, f->file, strlen(f->file), DISPLAY_ALL);
		text_append_string(out, ": ");
		display_append(out, f->error, strlen(f->error), DISPLAY_ALL);
		text_append_char(out, '\n');
	}
	if (s->num_failures > MOST_FAILURES)
		text_appendf(out, "  and %zu more: see launch.jsonl in the output folder\n",
			s->num_failures - MOST_FAILURES);
}

int launch_print_summary(const struct gd_launch_summary *summary, bool failures, FILE *out)
{
	struct gd_launch_summary s;
	int r = sized_read(&s, sizeof(s), summary, "gd_launch_summary", NULL);
	if (r < 0)
		return r;
	cleanup_(text_finish) struct text t = {0};
	if (s.files_done + s.files_failed > 0)
		r = append_table(&t, &s, out == stdout && terminal_has_color());
	append_totals(&t, &s);
	if (failures)
		append_failures(&t, &s);
	if (r < 0 || text_error(&t))
		return -ENOMEM;
	return fputs(text_string(&t), out) < 0 ? -EIO : 0;
}

int gd_launch_print_summary(const struct gd_launch_summary *summary, FILE *out)
{
	return launch_print_summary(summary, true, out);
}

/* ---- A line of progress -------------------------------------------------- */

static void append_amount(struct text *t, const struct gd_launch_progress *p)
{
	char done[UNITS_ROOM], total[UNITS_ROOM];
	if (p->known & GD_KNOWN_SECONDS)
		text_appendf(t, ", %s of %s audio", units_format_seconds(p->done_amount, done),
			units_format_seconds(p->total_amount, total));
	else
		text_appendf(t, ", %s of %s", units_format_size((uint64_t)p->done_amount, done),
			units_format_size((uint64_t)p->total_amount, total));
}

static void append_line(struct text *t, const struct gd_launch_progress *p)
{
	const struct gd_launch_summary *s = p->summary;
	unsigned long long over = s->files_done + s->files_failed, all = s->files_total - s->files_skipped;
	double by_files = all > 0 ? 100 * (double)over / (double)all : 100;
	double percent = p->total_amount > 0 ? 100 * p->done_amount / p->total_amount : by_files;
	if (all > 0)
		text_appendf(t, "%3d%%  %llu of %llu files", (int)(percent > 100 ? 100 : percent), over, all);
	else
		text_append_string(t, "no files yet");
	if (s->files_failed)
		text_appendf(t, ", %llu failed", (unsigned long long)s->files_failed);
	if (all > 0)
		append_amount(t, p);
	if (s->known & GD_KNOWN_RTF)
		text_appendf(t, ", RTF %.3g", s->rtf);
	char eta[UNITS_ROOM];
	if (p->ending)
		text_append_string(t, ", ending");
	else if (p->watching && over == all)
		text_append_string(t, ", waiting for new files");
	else if (p->known & GD_KNOWN_ETA)
		text_appendf(t, ", %s to go", units_format_about((uint64_t)(p->eta_seconds * 1000), eta));
}

int gd_launch_print_progress(const struct gd_launch_progress *progress, FILE *out)
{
	struct gd_launch_progress p;
	struct gd_launch_summary s;
	int r = sized_read(&p, sizeof(p), progress, "gd_launch_progress", NULL);
	if (r == 0)
		r = sized_read(&s, sizeof(s), p.summary, "gd_launch_summary", NULL);
	if (r < 0)
		return r;
	p.summary = &s;
	cleanup_(text_finish) struct text line = {0};
	append_line(&line, &p);
	text_append_char(&line, '\n');
	if (text_error(&line))
		return -ENOMEM;
	return fputs(text_string(&line), out) < 0 ? -EIO : 0;
}
