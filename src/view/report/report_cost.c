/* SPDX-License-Identifier: MIT */
/* The cost of the jobs: the energy of jobs that did not share their GPUs, and the idle GPU time of jobs. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/units.h"
#include "view/report/html.h"
#include "view/report/report_parts.h"

#define MOST 20

static int by_energy(const void *a, const void *b)
{
	const struct report_span *x = a, *y = b;
	int64_t p = x->attempt->energy_j, q = y->attempt->energy_j;
	return p != q ? (p < q) - (p > q) : (x->job->id > y->job->id) - (x->job->id < y->job->id);
}

int64_t report_idle_ms(const struct report_span *s)
{
	const struct view_attempt *a = s->attempt;
	int64_t more_ms = s->end_ms > a->idle_at_ms ? s->end_ms - a->idle_at_ms : 0;
	return a->idle_ms + more_ms * (int64_t)a->idle_gpus;
}

static int by_idle(const void *a, const void *b)
{
	const struct report_span *x = a, *y = b;
	int64_t p = report_idle_ms(x), q = report_idle_ms(y);
	return p != q ? (p < q) - (p > q) : (x->job->id > y->job->id) - (x->job->id < y->job->id);
}

void report_cost_order(struct report_facts *f)
{
	qsort(f->idle, f->num_idle, sizeof(*f->idle), by_idle);
	for (size_t i = 0; i < f->num_idle; i++)
		f->wasted_ms += report_idle_ms(&f->idle[i]);
	qsort(f->measured, f->num_measured, sizeof(*f->measured), by_energy);
	for (size_t i = 0; i < f->num_measured; i++)
		f->energy_j += f->measured[i].attempt->energy_j;
}

static void write_row(struct text *t, const struct report_span *s)
{
	char words[UNITS_ROOM];
	const struct view_attempt *a = s->attempt;
	text_appendf(t, "<tr><td class=\"n\">%" PRIu64 "</td><td class=\"n\">%s</td>", s->job->id,
		units_format_energy((uint64_t)a->energy_j, words));
	if (a->duration_ms > 0)
		text_appendf(t, "<td class=\"n\">%.0f W</td><td class=\"n\">%s</td>",
			(double)a->energy_j * 1000 / (double)a->duration_ms,
			units_format_duration((uint64_t)a->duration_ms, words));
	else
		text_append_string(t, "<td class=\"n\">—</td><td class=\"n\">—</td>");
	report_put_gpus_of(t, a);
	report_put_command(t, s->job);
	text_append_string(t, "</tr>\n");
}

void report_energy(struct text *t, const struct report_facts *f)
{
	char words[UNITS_ROOM];
	if (f->num_measured == 0)
		return;
	text_appendf(t,
		"<section><h2>Energy</h2>\n<p class=\"note\">%s, used by %zu of %zu attempts; only "
		"attempts that did not share their GPUs are measured.</p>\n",
		units_format_energy((uint64_t)f->energy_j, words), f->num_measured, f->num_attempts);
	text_append_string(t,
		"<div class=\"scroll\"><table><thead><tr><th class=\"n\">job</th><th class=\"n\">energy</th>"
		"<th class=\"n\">mean power</th><th class=\"n\">time</th><th>GPU</th><th>command</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < f->num_measured && i < MOST; i++)
		write_row(t, &f->measured[i]);
	text_append_string(t, "</tbody></table></div>\n");
	if (f->num_measured > MOST)
		text_appendf(t,
			"<p class=\"note\">The %d with the highest use; <code>gpuq status --json</code> lists all.</p>\n",
			MOST);
	text_append_string(t, "</section>\n");
}

void report_idle(struct text *t, const struct report_facts *f)
{
	char words[UNITS_ROOM];
	if (f->num_idle == 0)
		return;
	text_appendf(t,
		"<section><h2>Idle GPUs</h2>\n<p class=\"note\">%.1f GPU-hours were wasted by %zu attempt%s whose GPUs were idle "
		"for longer than <code>--idle-warn</code> allows.</p>\n",
		(double)f->wasted_ms / 3600e3, f->num_idle, f->num_idle == 1 ? "" : "s");
	text_append_string(t,
		"<div class=\"scroll\"><table><thead><tr><th class=\"n\">job</th><th class=\"n\">idle GPU time</th>"
		"<th>state</th><th>GPU</th><th>command</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < f->num_idle && i < MOST; i++) {
		const struct report_span *s = &f->idle[i];
		text_appendf(t,
			"<tr><td class=\"n\">%" PRIu64 "</td><td class=\"n bad\">%s</td><td class=\"k\">%s</td>",
			s->job->id, units_format_duration((uint64_t)report_idle_ms(s), words),
			view_job_state_name(s->attempt->state));
		report_put_gpus_of(t, s->attempt);
		report_put_command(t, s->job);
		text_append_string(t, "</tr>\n");
	}
	text_append_string(t, "</tbody></table></div></section>\n");
}
