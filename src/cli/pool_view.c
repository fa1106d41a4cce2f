/* SPDX-License-Identifier: MIT */
#include "cli/pool_view.h"

#include <stdlib.h>

#include "cli/pool_panel.h"
#include "view/panel/panel.h"

#define PIPE_SECONDS 5 /* between progress lines without a terminal */

void pool_view_begin(struct pool_view *v, FILE *out)
{
	*v = (struct pool_view){.out = out, .next_seconds = 1, .published = RUN_FILE_NONE};
	v->live = panel_auto_mode(fileno(out)) == PANEL_LIVE;
}

void pool_view_start(struct pool_view *v)
{
	if (!v->live)
		return;
	fflush(v->out);
	v->panel = pool_panel_create(fileno(v->out));
	v->live = v->panel != NULL;
}

void pool_view_publish(struct pool_view *v, const char *kind, const char *name, const char *const *worker)
{
	for (; worker && *worker; worker++)
		text_appendf(&v->worker, "%s%s", v->worker.length ? " " : "", *worker);
	v->name = realpath(name, NULL);
	run_file_open(&v->published, kind, v->name ? v->name : name, v->worker.length ? text_string(&v->worker) : NULL);
}

bool pool_view_is_due(struct pool_view *v, double seconds)
{
	if (seconds < v->next_seconds)
		return false;
	v->next_seconds = seconds + PIPE_SECONDS;
	return true;
}

void pool_view_print(struct pool_view *v, const struct text *lines)
{
	if (v->panel) {
		pool_panel_print(v->panel, text_string(lines), lines->length);
		return;
	}
	fputs(text_string(lines), v->out);
	fflush(v->out);
}

void pool_view_end(struct pool_view *v)
{
	bool shown = v->panel != NULL;
	pool_panel_destroy(v->panel);
	/* Separate the tables of the summary from the last state of the panel. */
	if (shown)
		fputc('\n', v->out);
	v->panel = NULL;
	run_file_close(&v->published);
	text_finish(&v->worker);
	free(v->name);
	v->name = NULL;
}
