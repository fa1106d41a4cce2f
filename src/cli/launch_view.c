/* SPDX-License-Identifier: MIT */
#include "cli/launch_view.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/display.h"
#include "base/units.h"
#include "cli/launch_panel.h"
#include "cli/say.h"
#include "view/panel/panel.h"

#define PIPE_SECONDS 5 /* between lines on a pipe */

void launch_view_begin(struct launch_view *v, FILE *out)
{
	*v = (struct launch_view){.out = out, .next_seconds = 1};
	v->live = panel_auto_mode(fileno(out)) == PANEL_LIVE;
}

void launch_view_start(struct launch_view *v)
{
	if (!v->live)
		return;
	fflush(v->out);
	v->panel = launch_panel_create(fileno(v->out));
	v->live = v->panel != NULL;
}

static void append_amount(struct text *t, const struct gd_launch_progress *p)
{
	char done[UNITS_ROOM], total[UNITS_ROOM];
	if (p->known & GD_KNOWN_SECONDS)
		text_appendf(t, ", %s of %s audio", units_format_duration((uint64_t)(p->done_amount * 1000), done),
			units_format_duration((uint64_t)(p->total_amount * 1000), total));
	else
		text_appendf(t, ", %s of %s", units_format_size((uint64_t)p->done_amount, done),
			units_format_size((uint64_t)p->total_amount, total));
}

static void append_line(struct text *t, const struct gd_launch_progress *p)
{
	const struct gd_launch_summary *s = p->summary;
	unsigned long long over = s->files_done + s->files_failed, all = s->files_total - s->files_skipped;
	double percent =
		p->total_amount > 0 ? 100 * p->done_amount / p->total_amount : 100 * (double)over / (double)all;
	text_appendf(t, "%3d%%  %llu of %llu files", (int)(percent > 100 ? 100 : percent), over, all);
	if (s->files_failed)
		text_appendf(t, ", %llu failed", (unsigned long long)s->files_failed);
	append_amount(t, p);
	if (s->known & GD_KNOWN_RTF)
		text_appendf(t, ", RTF %.3g", s->rtf);
	char eta[UNITS_ROOM];
	if (p->ending)
		text_append_string(t, ", ending");
	else if (p->known & GD_KNOWN_ETA)
		text_appendf(t, ", %s left", units_format_duration(((uint64_t)p->eta_seconds + 1) * 1000, eta));
}

static void tell_stop(struct launch_view *v, const struct gd_launch_progress *p)
{
	size_t busy = 0;
	for (size_t i = 0; i < p->num_workers; i++)
		busy += p->workers[i]->file != NULL;
	v->told_stop = true;
	if (busy && p->cancelling)
		say("no new file begins; %zu are being cancelled", busy);
	else if (busy)
		say("no new file begins; %zu are being finished (Ctrl-C once more cancels them)", busy);
}

void launch_view_progress(struct launch_view *v, const struct gd_launch_progress *p)
{
	if (p->ending && !v->told_stop)
		tell_stop(v, p);
	if (v->panel) {
		launch_panel_draw(v->panel, p);
		return;
	}
	if (p->summary->wall_seconds < v->next_seconds)
		return;
	v->next_seconds = p->summary->wall_seconds + PIPE_SECONDS;
	cleanup_(text_finish) struct text line = {0};
	append_line(&line, p);
	fprintf(v->out, "%s\n", text_string(&line));
	fflush(v->out);
}

void launch_view_result(struct launch_view *v, const struct gd_file_result *r)
{
	if (!r->error)
		return;
	cleanup_(text_finish) struct text line = {0};
	text_append_string(&line, "failed: ");
	display_append(&line, r->file, strlen(r->file), DISPLAY_ALL);
	text_append_string(&line, ": ");
	display_append(&line, r->error, strlen(r->error), DISPLAY_ALL);
	text_append_char(&line, '\n');
	if (v->panel) {
		launch_panel_print(v->panel, text_string(&line), line.length);
		return;
	}
	fputs(text_string(&line), v->out);
	fflush(v->out);
}

void launch_view_warning(struct launch_view *v, const char *words)
{
	(void)v; /* a panel finds it on standard error */
	say("warning: %s", words);
}

void launch_view_end(struct launch_view *v)
{
	launch_panel_destroy(v->panel);
	v->panel = NULL;
}
