/* SPDX-License-Identifier: MIT */
/* What the jobs cost: the energy of those that had their GPUs alone. */
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

void report_energy_order(struct report_facts *f)
{
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
		"<section><h2>Energy</h2>\n<p class=\"note\">%s by %zu attempt%s that had %s GPUs alone, of %zu; for others "
		"it is not known.</p>\n",
		units_format_energy((uint64_t)f->energy_j, words), f->num_measured, f->num_measured == 1 ? "" : "s",
		f->num_measured == 1 ? "its" : "their", f->num_attempts);
	text_append_string(t,
		"<div class=\"scroll\"><table><thead><tr><th class=\"n\">job</th><th class=\"n\">energy</th>"
		"<th class=\"n\">mean power</th><th class=\"n\">time</th><th>GPU</th><th>command</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < f->num_measured && i < MOST; i++)
		write_row(t, &f->measured[i]);
	text_append_string(t, "</tbody></table></div>\n");
	if (f->num_measured > MOST)
		text_appendf(t,
			"<p class=\"note\">The %d that used most; <code>gpuq status --json</code> has all.</p>\n",
			MOST);
	text_append_string(t, "</section>\n");
}
