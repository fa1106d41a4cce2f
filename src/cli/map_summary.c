/* SPDX-License-Identifier: MIT */
#include "cli/map_summary.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/json_put.h"
#include "base/table.h"
#include "base/units.h"

static double share_of(const struct map_gpu *g, const struct map_summary *s)
{
	return s->done ? (double)g->items / (double)s->done : 0;
}

static int append_table(struct text *out, const struct map_summary *s, bool colored)
{
	static const struct table_column columns[] = {{"GPU", true, false}, {"ITEMS", true, false},
		{"FAILED", true, false}, {"MESSAGES", true, false}, {"ITEMS/S", true, false}, {"SHARE", true, false}};
	cleanup_(table_finish) struct table t = {.columns = columns, .num_columns = sizeof(columns) / sizeof(*columns)};
	for (size_t i = 0; i < s->num_gpus; i++) {
		const struct map_gpu *g = &s->gpus[i];
		table_cellf(&t, TERMINAL_BOLD, "%d", g->gpu);
		table_cellf(&t, TERMINAL_NONE, "%llu", (unsigned long long)g->items);
		table_cellf(&t, g->failed ? TERMINAL_RED : TERMINAL_NONE, "%llu", (unsigned long long)g->failed);
		table_cellf(&t, TERMINAL_NONE, "%llu", (unsigned long long)g->messages);
		table_cellf(&t, TERMINAL_NONE, "%.*f", g->items_per_second < 10 ? 2 : 0, g->items_per_second);
		table_cellf(&t, TERMINAL_NONE, "%.0f%%", 100 * share_of(g, s));
	}
	return table_print(&t, terminal_width(), colored, out);
}

static void append_totals(struct text *out, const struct map_summary *s)
{
	char wall[UNITS_ROOM];
	text_appendf(out, "%llu of %llu items done", (unsigned long long)s->done, (unsigned long long)s->total);
	if (s->failed)
		text_appendf(out, ", %llu failed", (unsigned long long)s->failed);
	if (s->skipped)
		text_appendf(out, ", %llu already in the output", (unsigned long long)s->skipped);
	if (s->failed_before)
		text_appendf(out, " (%llu of them failed)", (unsigned long long)s->failed_before);
	if (s->left)
		text_appendf(out, ", %llu left", (unsigned long long)s->left);
	text_appendf(out, "; %s", units_format_seconds(s->wall_seconds, wall));
	if (s->items_per_second > 0)
		text_appendf(out, ", %.*f items/s", s->items_per_second < 10 ? 2 : 0, s->items_per_second);
	if (s->retries)
		text_appendf(
			out, ", %llu message%s sent again", (unsigned long long)s->retries, s->retries == 1 ? "" : "s");
	text_append_char(out, '\n');
}

int map_summary_print(const struct map_summary *s, FILE *out)
{
	cleanup_(text_finish) struct text t = {0};
	int r = append_table(&t, s, out == stdout && terminal_has_color());
	append_totals(&t, s);
	if (r < 0 || text_error(&t))
		return -ENOMEM;
	fputs(text_string(&t), out);
	return 0;
}

/* ---- JSON -------------------------------------------------------------------- */

static void put_failures(struct text *t, const struct map_summary *s)
{
	json_open(t, "failures", '[');
	for (size_t i = 0; i < s->num_failures; i++) {
		json_open(t, NULL, '{');
		json_put_int(t, "n", (int64_t)s->failures[i].number);
		json_put_string(t, "error", s->failures[i].reason);
		json_close(t, '}');
	}
	json_close(t, ']');
}

static void put_gpus(struct text *t, const struct map_summary *s)
{
	json_open(t, "gpus", '[');
	for (size_t i = 0; i < s->num_gpus; i++) {
		const struct map_gpu *g = &s->gpus[i];
		json_open(t, NULL, '{');
		json_put_int(t, "gpu", g->gpu);
		json_put_int(t, "items", (int64_t)g->items);
		json_put_int(t, "failed", (int64_t)g->failed);
		json_put_int(t, "messages", (int64_t)g->messages);
		json_put_decimal(t, "items_per_second", g->items_per_second, 3);
		json_put_decimal(t, "share", share_of(g, s), 6);
		json_close(t, '}');
	}
	json_close(t, ']');
}

void map_summary_format(struct text *t, const struct map_summary *s)
{
	json_open(t, NULL, '{');
	json_put_int(t, "items_total", (int64_t)s->total);
	json_put_int(t, "items_done", (int64_t)s->done);
	json_put_int(t, "items_failed", (int64_t)s->failed);
	json_put_int(t, "items_skipped", (int64_t)s->skipped);
	json_put_int(t, "items_failed_before", (int64_t)s->failed_before);
	json_put_int(t, "items_tried_again", (int64_t)s->tried_again);
	json_put_int(t, "items_left", (int64_t)s->left);
	json_put_int(t, "messages", (int64_t)s->messages);
	json_put_int(t, "messages_sent_again", (int64_t)s->retries);
	json_put_int(t, "worker_restarts", (int64_t)s->restarts);
	json_put_int(t, "batch", (int64_t)s->batch);
	json_put_decimal(t, "wall_seconds", s->wall_seconds, 6);
	json_put_decimal(t, "items_per_second", s->items_per_second, 3);
	put_failures(t, s);
	put_gpus(t, s);
	json_close(t, '}');
	text_append_char(t, '\n');
}
