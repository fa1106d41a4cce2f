/* SPDX-License-Identifier: MIT */
#include "cli/launch_view.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/display.h"
#include "cli/launch_panel.h"
#include "cli/launch_publish.h"
#include "cli/say.h"

static void tell_stop(struct pool_view *v, const struct gd_launch_progress *p)
{
	size_t busy = 0;
	for (size_t i = 0; i < p->num_workers; i++)
		busy += p->workers[i]->file != NULL;
	v->told_stop = true;
	if (busy && p->cancelling)
		say("cancelling %zu running file%s", busy, busy == 1 ? "" : "s");
	else if (busy)
		say("stopping after %zu running file%s (Ctrl-C again cancels)", busy, busy == 1 ? "" : "s");
}

void launch_view_progress(struct pool_view *v, const struct gd_launch_progress *p)
{
	launch_publish(&v->published, p);
	if (p->ending && !v->told_stop)
		tell_stop(v, p);
	if (v->panel) {
		launch_panel_draw(v->panel, p);
		return;
	}
	const struct gd_launch_summary *s = p->summary;
	uint64_t state = s->files_total + s->files_done + s->files_failed;
	bool rests = p->watching && !p->ending && s->files_left == 0;
	/* A watched folder may be idle for days. */
	if (rests ? state == v->shown_state && v->shown_rest : !pool_view_is_due(v, s->wall_seconds))
		return;
	v->shown_state = state;
	v->shown_rest = rests;
	(void)gd_launch_print_progress(p, v->out); /* a closed pipe does not end the run */
	fflush(v->out);
}

void launch_view_result(struct pool_view *v, const struct gd_file_result *r)
{
	if (!r->error)
		return;
	cleanup_(text_finish) struct text line = {0};
	text_append_string(&line, "failed: ");
	display_append(&line, r->file, strlen(r->file), DISPLAY_ALL);
	text_append_string(&line, ": ");
	display_append(&line, r->error, strlen(r->error), DISPLAY_ALL);
	text_append_char(&line, '\n');
	pool_view_print(v, &line);
}
