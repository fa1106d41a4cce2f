/* SPDX-License-Identifier: MIT */
/* Launches and maps next to a queue. */
#include <inttypes.h>
#include <string.h>

#include "base/units.h"
#include "view/report/html.h"
#include "view/report/report_parts.h"

#define MOST 50

static int64_t end_of(const struct view_run *run, int64_t now_ms)
{
	return run->end_ms > 0 ? run->end_ms : now_ms;
}

static void write_speed(struct text *t, const struct view_run *run)
{
	text_append_string(t, "<td class=\"n\">");
	if (run->rate > 0 && run->rate < 1)
		text_appendf(t, "%.1f/min", run->rate * 60);
	else if (run->rate > 0)
		text_appendf(t, "%.*f/s", run->rate < 10 ? 1 : 0, run->rate);
	else
		text_append_string(t, "—");
	if (run->rtf >= 0)
		text_appendf(t, ", RTF %.3g", run->rtf);
	text_append_string(t, "</td>");
}

static const char *state_of(const struct view_run *run)
{
	if (run->end_ms <= 0)
		return run->ending ? "ending" : run->watching ? "watching" : "running";
	if (run->killed)
		return "killed";
	return run->total >= 0 && run->done + run->failed < (uint64_t)run->total ? "interrupted" : "ended";
}

static void write_run(struct text *t, const struct view_run *run, int64_t now_ms)
{
	char words[UNITS_ROOM], moment[REPORT_MOMENT];
	int64_t ms = end_of(run, now_ms) - run->start_ms;
	const char *state = state_of(run);
	text_appendf(t, "<tr><td class=\"k\">%s</td><td class=\"k\">", report_moment(run->start_ms, moment));
	html_text(t, run->kind, 20);
	text_appendf(t, "</td><td class=\"n\">%s</td><td class=\"k%s\">%s</td><td class=\"n\">%" PRIu64,
		units_format_duration(ms > 0 ? (uint64_t)ms : 0, words), strcmp(state, "killed") == 0 ? " bad" : "",
		state, run->done);
	if (run->total >= 0 && (uint64_t)run->total != run->done)
		text_appendf(t, " of %" PRId64, run->total);
	text_appendf(t, "</td><td class=\"n%s\">%" PRIu64 "</td>", run->failed ? " bad" : "", run->failed);
	write_speed(t, run);
	text_append_string(t, "<td class=\"k\">");
	for (size_t i = 0; i < run->num_gpus; i++)
		text_appendf(t, "%s%d", i ? ", " : "", run->gpus[i].id);
	text_append_string(t, run->num_gpus ? "</td><td class=\"w\"><b>" : "—</td><td class=\"w\"><b>");
	html_text(t, run->name, 200);
	text_append_string(t, "</b> <code>");
	html_text(t, run->worker, 200);
	text_append_string(t, "</code></td></tr>\n");
}

void report_runs(struct text *t, const struct report_facts *f, const struct view_run *runs, size_t count)
{
	size_t shown = 0;
	for (size_t i = 0; i < count; i++)
		shown += end_of(&runs[i], f->now_ms) >= f->from_ms;
	if (shown == 0)
		return;
	text_append_string(t,
		"<section><h2>Launches and maps</h2>\n<p class=\"note\">Run by the same user on this machine at the same "
		"time. Their files and items are not counted as jobs.</p>\n"
		"<div class=\"scroll\"><table><thead><tr><th>started</th><th>kind</th><th class=\"n\">time</th><th>state</th>"
		"<th class=\"n\">done</th><th class=\"n\">failed</th><th class=\"n\">speed</th><th>GPU</th>"
		"<th>input, worker</th></tr></thead><tbody>\n");
	/* Newest first. */
	for (size_t i = count, left = MOST; i-- > 0 && left > 0;)
		if (end_of(&runs[i], f->now_ms) >= f->from_ms) {
			write_run(t, &runs[i], f->now_ms);
			left--;
		}
	text_append_string(t, "</tbody></table></div>\n");
	if (shown > MOST)
		text_appendf(t, "<p class=\"note\">The last %d of %zu.</p>\n", MOST, shown);
	text_append_string(t, "</section>\n");
}
