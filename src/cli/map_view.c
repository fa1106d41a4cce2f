/* SPDX-License-Identifier: MIT */
#include "cli/map_view.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/display.h"
#include "base/error.h"
#include "base/units.h"
#include "cli/map_panel.h"
#include "cli/map_publish.h"
#include "cli/say.h"

#define MOST_FAILURES 100 /* printed failures; all are in the output or in the file of --errors */

void map_view_start(struct map_view *v)
{
	pool_view_start(&v->pool);
	int r = v->pool.panel ? 0 : terminal_filter_begin(&v->filter, fileno(v->pool.out));
	if (r < 0)
		say("warning: cannot filter control characters in the output of workers: %s", error_words(r));
}

void map_view_end(struct map_view *v, const struct map_summary *summary)
{
	map_publish_end(&v->pool.published, summary);
	pool_view_end(&v->pool);
	terminal_filter_end(&v->filter);
}

static bool is_loading(const struct map_progress *p)
{
	for (size_t i = 0; i < p->num_workers; i++)
		if (p->workers[i].state != GD_WORKER_STATE_STARTING)
			return false;
	return true;
}

static void append_line(struct text *t, const struct map_progress *p)
{
	const struct map_summary *s = p->summary;
	unsigned long long over = s->done + s->failed, all = s->total - s->skipped;
	if (s->total_known)
		text_appendf(t, "%3d%%  %llu of %llu items", all ? (int)(100 * over / all) : 100, over, all);
	else if (s->input_bytes)
		text_appendf(t, "%3d%%  %llu items", (int)(100 * s->done_bytes / s->input_bytes), over);
	else
		text_appendf(t, "%llu items", over);
	if (s->failed)
		text_appendf(t, ", %llu failed", (unsigned long long)s->failed);
	if (s->items_per_second > 0)
		text_appendf(t, ", %.*f items/s", s->items_per_second < 10 ? 2 : 0, s->items_per_second);
	char eta[UNITS_ROOM];
	if (is_loading(p))
		text_append_string(t, ", no worker is ready yet");
	else if (p->ending)
		text_append_string(t, ", ending");
	else if (s->total_known && s->items_per_second > 0 && all > over)
		text_appendf(t, ", %s to go",
			units_format_about((uint64_t)((double)(all - over) / s->items_per_second * 1000), eta));
}

static void tell_stop(struct pool_view *v, const struct map_progress *p)
{
	v->told_stop = true;
	if (p->running)
		say("%s %llu running item%s%s", p->cancelling ? "cancelling" : "stopping after",
			(unsigned long long)p->running, p->running == 1 ? "" : "s",
			p->cancelling ? "" : " (Ctrl-C again cancels)");
}

void map_view_progress(struct map_view *v, const struct map_progress *p)
{
	struct pool_view *pool = &v->pool;
	map_publish(&pool->published, p);
	if (p->ending && !pool->told_stop)
		tell_stop(pool, p);
	if (pool->panel) {
		map_panel_draw(pool->panel, p);
		return;
	}
	if (!pool_view_is_due(pool, p->summary->wall_seconds))
		return;
	cleanup_(text_finish) struct text line = {0};
	append_line(&line, p);
	text_append_char(&line, '\n');
	pool_view_print(pool, &line);
}

void map_view_failure(struct map_view *v, uint64_t number, const char *reason)
{
	if (v->failures++ > MOST_FAILURES)
		return;
	cleanup_(text_finish) struct text line = {0};
	if (v->failures > MOST_FAILURES) {
		text_appendf(&line, "further failures are not shown; %s has all of them",
			v->options->errors ? "the file of --errors" : "the output");
	} else {
		text_appendf(&line, "failed: item %llu: ", (unsigned long long)number);
		display_append(&line, reason, strlen(reason), DISPLAY_ALL);
	}
	text_append_char(&line, '\n');
	pool_view_print(&v->pool, &line);
}
