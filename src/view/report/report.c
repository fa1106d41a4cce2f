/* SPDX-License-Identifier: MIT */
#include "view/report/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/display.h"
#include "base/units.h"
#include "view/report/html.h"
#include "view/report/report_parts.h"

#define MAX_FAILED  200 /* listed one by one */
#define MAX_REASONS 50

static const char *duration(int64_t ms, char buf[UNITS_ROOM])
{
	return units_format_duration(ms > 0 ? (uint64_t)ms : 0, buf);
}

/* Tenths of a percent. */
static unsigned share(int64_t part, int64_t whole)
{
	double s = whole > 0 ? (double)part / (double)whole * 1000 + 0.5 : 0;
	return s > 1000 ? 1000 : s < 0 ? 0 : (unsigned)s;
}

/* ---- The figures at the top ----------------------------------------------------------- */

static void write_tiles(struct text *t, const struct report_facts *f)
{
	char words[UNITS_ROOM];
	cleanup_(text_finish) struct text tiles = {0};
	report_tile(&tiles, NULL, f->num_jobs == 1 ? "job" : "jobs", "%s", units_format_count(f->num_jobs, words));
	static const enum view_job_state order[] = {VIEW_JOB_COMPLETED, VIEW_JOB_FAILED, VIEW_JOB_CANCELLED,
		VIEW_JOB_UNKNOWN, VIEW_JOB_RUNNING, VIEW_JOB_PENDING, VIEW_JOB_HELD};
	for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++) {
		const char *name = view_job_state_name(order[i]);
		size_t count = f->counts[order[i]];
		if (count || order[i] == VIEW_JOB_COMPLETED || order[i] == VIEW_JOB_FAILED)
			report_tile(&tiles, count ? name : NULL, name, "%s", units_format_count(count, words));
	}
	report_tile(&tiles, NULL, "start to end", "%s", f->num_attempts ? duration(f->to_ms - f->from_ms, words) : "—");
	if (f->gpu_ms) {
		unsigned busy = share(f->busy_ms, f->gpu_ms);
		report_tile(&tiles, NULL, "GPU time busy", "%u.%u%%", busy / 10, busy % 10);
	}
	if (f->num_idle)
		report_tile(&tiles, "bad", "idle GPU time of jobs", "%s", duration(f->wasted_ms, words));
	if (f->num_measured)
		report_tile(&tiles, NULL, "energy", "%s", units_format_energy((uint64_t)f->energy_j, words));
	if (f->waits[REPORT_WAIT_ALL].count)
		report_tile(&tiles, NULL, "median wait", "%s", duration(f->waits[REPORT_WAIT_ALL].median_ms, words));
	report_tiles(t, &tiles);
}

/* ---- GPUs ------------------------------------------------------------------------------ */

static void write_gpu(struct text *t, const struct report_facts *f, const struct report_gpu *g)
{
	char label[REPORT_GPU_LABEL], size[UNITS_ROOM], words[UNITS_ROOM], spans[UNITS_ROOM], failed[UNITS_ROOM];
	unsigned busy = share(g->busy_ms, f->to_ms - f->from_ms);
	text_appendf(t, "<tr><td class=\"k\">%s", report_gpu_label(g, label));
	if (g->name) {
		text_append_string(t, " <span class=\"label\">");
		html_text(t, g->name, 40);
		text_append_string(t, "</span>");
	}
	text_appendf(t,
		"</td><td class=\"k\"><span class=\"bar\"><i style=\"width:%u.%u%%\"></i></span>%u.%u%%</td>"
		"<td class=\"n\">%s</td><td class=\"n\">%s</td><td class=\"n%s\">%s</td>",
		busy / 10, busy % 10, busy / 10, busy % 10, duration(g->busy_ms, words),
		units_format_count(g->num_spans, spans), g->num_failed ? " bad" : "",
		units_format_count(g->num_failed, failed));
	if (g->mean_util >= 0)
		text_appendf(t, "<td class=\"n\">%d%%</td>", g->mean_util);
	else
		text_append_string(t, "<td class=\"n\">—</td>");
	text_append_string(t, "<td class=\"n\">");
	if (g->peak_mem_mb >= 0)
		text_append_string(t, units_format_size((uint64_t)g->peak_mem_mb << 20, size));
	else
		text_append_string(t, "—");
	if (g->peak_mem_mb >= 0 && g->memory_total_mb >= 0)
		text_appendf(t, " of %s", units_format_size((uint64_t)g->memory_total_mb << 20, size));
	text_append_string(t, "</td></tr>\n");
}

static void write_gpus(struct text *t, const struct report_facts *f)
{
	text_append_string(t, "<section><h2>GPUs</h2>\n");
	if (f->num_gpus == 0) {
		text_append_string(t, "<p class=\"note\">No job has run yet.</p></section>\n");
		return;
	}
	text_append_string(t,
		"<div class=\"scroll\"><table><thead><tr><th>GPU</th><th>busy</th><th class=\"n\">time with jobs</th>"
		"<th class=\"n\">attempts</th><th class=\"n\">failed</th><th class=\"n\">utilization</th>"
		"<th class=\"n\">most memory used</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < f->num_gpus; i++)
		write_gpu(t, f, &f->gpus[i]);
	text_append_string(t, "</tbody></table></div></section>\n");
}

/* ---- Over time ------------------------------------------------------------------------- */

/* A section with a chart; lead: HTML between title and chart. */
static void write_chart(struct text *t, const char *title, const char *lead, report_chart_fn *chart,
	const struct report_facts *f, const struct report_axis *a)
{
	text_appendf(t, "<section><h2>%s</h2>\n%s\n", title, lead);
	chart(t, f, a);
	text_append_string(t, "</section>\n");
}

static void write_timeline(struct text *t, const struct report_facts *f, const struct report_axis *a)
{
	if (f->num_attempts == 0)
		return;
	write_chart(t, "Timeline",
		"<div class=\"key\"><span><i style=\"background:var(--completed)\"></i><i style=\"background:var(--completed2)\"></i>"
		"completed</span><span><i style=\"background:var(--failed)\"></i>failed</span>"
		"<span><i style=\"background:var(--cancelled)\"></i>cancelled</span>"
		"<span><i style=\"background:var(--running)\"></i>running</span></div>",
		report_timeline, f, a);
}

static void write_usage(struct text *t, const struct report_facts *f, const struct report_axis *a)
{
	size_t sampled = 0;
	for (size_t i = 0; i < f->num_gpus; i++)
		sampled += f->gpus[i].num_samples > 0;
	if (f->num_attempts == 0)
		return;
	if (sampled == 0) {
		text_append_string(t,
			"<section><h2>Utilization and memory</h2>\n"
			"<p class=\"note\">There are no GPU samples for this time: the runner takes them every few "
			"seconds while jobs run.</p></section>\n");
		return;
	}
	write_chart(t, "Utilization and memory",
		"<div class=\"key\"><span><i style=\"background:var(--running);opacity:.5\"></i>utilization</span>"
		"<span><i class=\"l\" style=\"background:var(--memory)\"></i>memory used</span>"
		"<span>each from 0 to 100%</span></div>",
		report_usage, f, a);
}

static void write_throughput(struct text *t, const struct report_facts *f, const struct report_axis *a)
{
	if (f->num_ends > 0)
		write_chart(t, "Throughput", "<p class=\"note\">Attempts that ended.</p>", report_throughput, f, a);
}

/* ---- Waiting ------------------------------------------------------------------------------ */

static void write_waits(struct text *t, const struct report_facts *f)
{
	static const char *const names[REPORT_WAITS] = {
		[REPORT_WAIT_ALL] = "From submission to first start",
		[REPORT_WAIT_GPU] = "for a free GPU and its turn",
		[REPORT_WAIT_AFTER] = "for jobs it depends on",
		[REPORT_WAIT_RETRY] = "Between attempts",
		[REPORT_WAIT_STILL] = "Pending until now",
		[REPORT_WAIT_BEGIN] = "Not waiting: begin time not reached",
		[REPORT_WAIT_HELD] = "Not waiting: held",
	};
	char times[UNITS_ROOM], total[UNITS_ROOM], median[UNITS_ROOM], p90[UNITS_ROOM], longest[UNITS_ROOM];
	text_append_string(t,
		"<div class=\"scroll\"><table><thead><tr><th>waiting</th><th class=\"n\">times</th><th class=\"n\">total</th>"
		"<th class=\"n\">median</th><th class=\"n\">p90</th><th class=\"n\">longest</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < REPORT_WAITS; i++) {
		const struct report_times *w = &f->waits[i];
		if (w->count == 0 || (i == REPORT_WAIT_GPU && f->waits[REPORT_WAIT_AFTER].count == 0))
			continue;
		text_appendf(t,
			"<tr><td class=\"w%s\">%s</td><td class=\"n\">%s</td><td class=\"n\">%s</td><td class=\"n\">%s</td>"
			"<td class=\"n\">%s</td><td class=\"n\">%s</td></tr>\n",
			i == REPORT_WAIT_GPU || i == REPORT_WAIT_AFTER ? " part" : "", names[i],
			units_format_count(w->count, times), duration(w->total_ms, total),
			duration(w->median_ms, median), duration(w->p90_ms, p90), duration(w->longest_ms, longest));
	}
	text_append_string(t, "</tbody></table></div>\n");
}

static void write_waiting(struct text *t, const struct report_facts *f, const struct report_axis *a)
{
	char words[UNITS_ROOM];
	size_t any = 0;
	for (size_t i = 0; i < REPORT_WAITS; i++)
		any += f->waits[i].count;
	if (!any)
		return;
	text_append_string(t, "<section><h2>Waiting times</h2>\n");
	if (f->num_attempts && f->gpu_ms) {
		unsigned idle = share(f->idle_ms, f->gpu_ms);
		text_appendf(t,
			"<p class=\"note\">GPUs were empty for %s in total (%u.%u%% of their time) while jobs "
			"that could have used them were waiting.</p>\n",
			duration(f->idle_ms, words), idle / 10, idle % 10);
	}
	if (f->paused_ms > 0)
		text_appendf(t, "<p class=\"note\">The queue was paused for %s, which does not count as waiting.</p>\n",
			duration(f->paused_ms, words));
	write_waits(t, f);
	if (f->num_attempts)
		report_depth_chart(t, f, a);
	text_append_string(t, "</section>\n");
}

/* ---- Jobs --------------------------------------------------------------------------------- */

void report_put_command(struct text *t, const struct view_job *j)
{
	text_append_string(t, "<td class=\"w\">");
	if (j->name) {
		text_append_string(t, "<b>");
		html_text(t, j->name, 80);
		text_append_string(t, "</b> ");
	}
	text_append_string(t, "<code>");
	html_text(t, j->command, 200);
	text_append_string(t, "</code></td>");
}

void report_put_gpus_of(struct text *t, const struct view_attempt *a)
{
	text_append_string(t, "<td class=\"k\">");
	for (size_t i = 0; a && i < a->num_gpus; i++)
		text_appendf(t, "%s%d", i ? ", " : "", a->gpus[i]);
	text_append_string(t, a && a->num_gpus ? "</td>" : "—</td>");
}

static void write_longest(struct text *t, const struct report_facts *f)
{
	char words[UNITS_ROOM], moment[REPORT_MOMENT];
	if (f->num_longest == 0)
		return;
	text_append_string(t,
		"<section><h2>The longest jobs</h2>\n<div class=\"scroll\"><table><thead><tr><th class=\"n\">job</th>"
		"<th class=\"n\">time</th><th>state</th><th>GPU</th><th>started</th><th>command</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < f->num_longest; i++) {
		const struct report_span *s = &f->longest[i];
		const struct view_attempt *a = s->attempt;
		int64_t ms = a->duration_ms >= 0 ? a->duration_ms : s->end_ms - s->start_ms;
		text_appendf(t, "<tr><td class=\"n\">%" PRIu64 "</td><td class=\"n\">%s</td><td class=\"k %s\">%s</td>",
			s->job->id, duration(ms, words), view_job_state_name(a->state), view_job_state_name(a->state));
		report_put_gpus_of(t, a);
		text_appendf(t, "<td class=\"k\">%s</td>", report_moment(a->start_ms, moment));
		report_put_command(t, s->job);
		text_append_string(t, "</tr>\n");
	}
	text_append_string(t, "</tbody></table></div></section>\n");
}

static const char *reason_of(const struct view_job *j, char buf[REPORT_OUTCOME])
{
	const struct view_attempt *a = view_job_last(j);
	const char *reason = j->reason ? j->reason : a ? a->reason : NULL;
	report_outcome(reason, a, buf);
	return buf[0] ? buf : "unknown";
}

struct reason {
	char words[REPORT_OUTCOME];
	size_t count;
};

static int by_count(const void *a, const void *b)
{
	const struct reason *x = a, *y = b;
	return x->count != y->count ? (x->count < y->count) - (x->count > y->count) : strcmp(x->words, y->words);
}

/* If there are too many kinds, rare reasons are left out of the list. */
void report_put_reasons(struct text *t, const struct report_facts *f)
{
	struct reason reasons[MAX_REASONS];
	char buf[REPORT_OUTCOME];
	size_t n = 0;
	for (size_t i = 0; i < f->num_failed; i++) {
		const char *words = reason_of(f->failed[i], buf);
		size_t k = 0;
		while (k < n && strcmp(reasons[k].words, words) != 0)
			k++;
		if (k == n && n == MAX_REASONS)
			continue;
		if (k == n) {
			memcpy(reasons[n].words, words, strlen(words) + 1);
			reasons[n++].count = 0;
		}
		reasons[k].count++;
	}
	qsort(reasons, n, sizeof(*reasons), by_count);
	text_append_string(t, "<p class=\"note\">");
	for (size_t i = 0; i < n && i < 8; i++) {
		text_appendf(t, "%s%zu × ", i ? ", " : "", reasons[i].count);
		html_text(t, reasons[i].words, 80);
	}
	text_append_string(t, n > 8 ? ", …</p>\n" : "</p>\n");
}

static void write_failed_job(struct text *t, const struct view_job *j)
{
	char words[UNITS_ROOM], buf[REPORT_OUTCOME];
	const struct view_attempt *a = view_job_last(j);
	text_appendf(t, "<tr><td class=\"n\">%" PRIu64 "</td><td class=\"k bad\">", j->id);
	html_text(t, reason_of(j, buf), 60);
	text_appendf(t, "</td><td class=\"n\">%s</td><td class=\"n\">%zu</td>",
		a && a->duration_ms >= 0 ? duration(a->duration_ms, words) : "—", j->num_attempts);
	report_put_gpus_of(t, a);
	report_put_command(t, j);
	text_append_string(t, "</tr>\n");
}

static void write_failed(struct text *t, const struct report_facts *f)
{
	if (f->num_failed == 0)
		return;
	text_append_string(t, "<section><h2>Failed jobs</h2>\n");
	report_put_reasons(t, f);
	text_append_string(t,
		"<div class=\"scroll\"><table><thead><tr><th class=\"n\">job</th><th>reason</th><th class=\"n\">time</th>"
		"<th class=\"n\">attempts</th><th>GPU</th><th>command</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < f->num_failed && i < MAX_FAILED; i++)
		write_failed_job(t, f->failed[i]);
	text_append_string(t, "</tbody></table></div>\n");
	if (f->num_failed > MAX_FAILED)
		text_appendf(t,
			"<p class=\"note\">The last %d of %zu; <code>gpuq status --state failed</code> lists all.</p>\n",
			MAX_FAILED, f->num_failed);
	text_append_string(t, "</section>\n");
}

static void write_subject(struct text *t, const struct report *r, const struct report_facts *f)
{
	char from[REPORT_MOMENT], to[REPORT_MOMENT];
	text_append_string(t, r->queue ? r->queue : "");
	if (f->num_attempts)
		text_appendf(t, " · %s to %s", report_moment(f->from_ms, from), report_moment(f->to_ms, to));
	if (r->since_ms)
		text_appendf(t, " · since %s", report_moment(r->since_ms, from));
}

static void write_queue(
	struct text *t, const struct report *r, const struct report_facts *f, const struct report_axis *a)
{
	write_tiles(t, f);
	write_gpus(t, f);
	write_timeline(t, f, a);
	write_usage(t, f, a);
	write_throughput(t, f, a);
	write_waiting(t, f, a);
	write_longest(t, f);
	report_idle(t, f);
	report_energy(t, f);
	write_failed(t, f);
	report_runs(t, f, r->runs, r->num_runs);
}

static void write_launch(
	struct text *t, const struct report_facts *f, const struct report_axis *a, const struct report_launch *l)
{
	report_launch_tiles(t, f, l);
	report_launch_gpus(t, f, l);
	write_timeline(t, f, a);
	write_throughput(t, f, a);
	report_launch_slowest(t, f, l);
	report_launch_failed(t, f);
}

int report_write(const struct report *r, struct text *out)
{
	cleanup_(text_finish) struct text subject = {0};
	struct report_facts f;
	struct report_axis a;
	int result = report_facts_init(&f, r->model, r->since_ms, r->now_ms);
	if (result < 0)
		return result;
	report_axis_init(&a, f.from_ms, f.to_ms);
	write_subject(&subject, r, &f);
	f.files = r->launch;
	report_begin(out, r->launch ? "gpuq launch" : "gpuq report", text_string(&subject));
	if (r->launch)
		write_launch(out, &f, &a, r->launch);
	else
		write_queue(out, r, &f, &a);
	report_end(out, r->now_ms);
	report_facts_finish(&f);
	return text_error(out) ? text_error(out) : text_error(&subject);
}
