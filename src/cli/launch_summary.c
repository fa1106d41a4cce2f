/* SPDX-License-Identifier: MIT */
#include "cli/launch_summary.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/display.h"
#include "base/file.h"
#include "base/json_put.h"
#include "base/units.h"
#include "cli/table.h"

#define MOST_FAILURES 20 /* that are listed */

static const char *duration(double seconds, char buf[UNITS_ROOM])
{
	return units_format_duration((uint64_t)(seconds * 1000), buf);
}

static void put_row(struct table *t, enum colour colour, const struct gd_launch_gpu *g, const char *name)
{
	char text[UNITS_ROOM];
	table_cell(t, COLOUR_BOLD, name);
	table_cellf(t, colour, "%llu", (unsigned long long)g->files);
	table_cellf(t, g->failed ? COLOUR_RED : colour, "%llu", (unsigned long long)g->failed);
	table_cell(t, colour, g->audio_seconds > 0 ? duration(g->audio_seconds, text) : "-");
	table_cell(t, colour, duration(g->processing_seconds, text));
	if (g->audio_seconds > 0)
		table_cellf(t, colour, "%.3g", g->processing_seconds / g->audio_seconds);
	else
		table_cell(t, colour, "-");
	table_cellf(t, colour, "%.0f%%", 100 * g->share);
}

static int append_table(struct text *out, const struct gd_launch_summary *s, bool coloured)
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
		char name[24];
		snprintf(name, sizeof(name), "%lld", (long long)s->gpus[i]->gpu);
		put_row(&t, COLOUR_NONE, s->gpus[i], name);
	}
	put_row(&t, COLOUR_BOLD, &total, "all");
	return table_print(&t, terminal_width(), coloured, out);
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
	text_appendf(out, "; %s", duration(s->wall_seconds, wall));
	if (s->audio_seconds > 0)
		text_appendf(out, " for %s of audio (RTF %.3g)", duration(s->audio_seconds, audio), s->rtf);
	text_appendf(out, ", speedup %.2f, skew %.0f%%\n", s->speedup, 100 * s->skew);
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

void launch_summary_print_skipped(size_t skipped, bool all, FILE *out)
{
	bool one = skipped == 1;
	fprintf(out, "%zu %s done already and skipped%s\n", skipped, one ? "file is" : "files are",
		!all  ? ""
		: one ? "; --force does it again"
		      : "; --force does them again");
}

int launch_summary_print(const struct gd_launch_summary *s, bool failures, FILE *out)
{
	cleanup_(text_finish) struct text t = {0};
	int r = append_table(&t, s, out == stdout && terminal_has_colour());
	append_totals(&t, s);
	if (failures)
		append_failures(&t, s);
	if (r < 0 || text_error(&t))
		return -ENOMEM;
	fputs(text_string(&t), out);
	return 0;
}

/* ---- For programs ------------------------------------------------------------ */

static void put_failures(struct text *t, const struct gd_launch_summary *s)
{
	json_open(t, "failures", '[');
	for (size_t i = 0; i < s->num_failures; i++) {
		json_open(t, NULL, '{');
		json_put_any(t, "file", s->failures[i]->file, strlen(s->failures[i]->file));
		json_put_string(t, "error", s->failures[i]->error);
		json_close(t, '}');
	}
	json_close(t, ']');
}

static void put_gpus(struct text *t, const struct gd_launch_summary *s)
{
	json_open(t, "gpus", '[');
	for (size_t i = 0; i < s->num_gpus; i++) {
		const struct gd_launch_gpu *g = s->gpus[i];
		json_open(t, NULL, '{');
		json_put_int(t, "gpu", g->gpu);
		json_put_int(t, "files", (int64_t)g->files);
		json_put_int(t, "failed", (int64_t)g->failed);
		json_put_decimal(t, "audio_seconds", g->audio_seconds, 3);
		json_put_decimal(t, "processing_seconds", g->processing_seconds, 6);
		json_put_decimal(t, "share", g->share, 6);
		json_close(t, '}');
	}
	json_close(t, ']');
}

int launch_summary_write_json(const struct gd_launch_summary *s, int fd)
{
	cleanup_(text_finish) struct text t = {0};
	json_open(&t, NULL, '{');
	json_put_int(&t, "files_total", (int64_t)s->files_total);
	json_put_int(&t, "files_done", (int64_t)s->files_done);
	json_put_int(&t, "files_failed", (int64_t)s->files_failed);
	json_put_int(&t, "files_skipped", (int64_t)s->files_skipped);
	json_put_int(&t, "files_left", (int64_t)s->files_left);
	json_put_int(&t, "bytes_done", (int64_t)s->bytes_done);
	json_put_decimal(&t, "audio_seconds", s->audio_seconds, 3);
	json_put_decimal(&t, "processing_seconds", s->processing_seconds, 6);
	json_put_decimal(&t, "wall_seconds", s->wall_seconds, 6);
	json_put_decimal(&t, "rtf", s->rtf, 9);
	json_put_decimal(&t, "speedup", s->speedup, 6);
	json_put_decimal(&t, "skew", s->skew, 6);
	put_failures(&t, s);
	put_gpus(&t, s);
	json_close(&t, '}');
	text_append_char(&t, '\n');
	return text_error(&t) ? -ENOMEM : file_write_all(fd, t.data, t.length);
}
