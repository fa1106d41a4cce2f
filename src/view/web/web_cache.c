/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "view/web/web_private.h"

/* Columns of the picture: what is narrower is joined. */
#define LINE_GRAINS 400
#define LINE_NS     NS_PER_S
/* Of the time, what building it may take. */
#define LINE_SHARE 25

static void rows_finish(struct web_rows *rows)
{
	free(rows->key);
	free(rows->jobs);
	*rows = (struct web_rows){0};
}

void web_cache_finish(struct web *w)
{
	for (size_t i = 0; i < WEB_CACHE; i++) {
		rows_finish(&w->rows[i]);
		text_finish(&w->lines[i].json);
	}
}

const struct web_rows *web_cache_rows(struct web *w, const struct web_query *q, const char *key)
{
	struct web_rows *rows = NULL;
	for (size_t i = 0; i < WEB_CACHE && !rows; i++)
		if (w->rows[i].key && strcmp(w->rows[i].key, key) == 0)
			rows = &w->rows[i];
	if (rows && rows->generation == w->generation)
		return rows;
	if (!rows)
		rows = &w->rows[w->next_rows++ % WEB_CACHE];
	struct web_rows fresh = {.key = strdup(key),
		.generation = w->generation,
		.jobs = calloc(q->limit ? q->limit : 1, sizeof(*fresh.jobs))};
	if (fresh.key && fresh.jobs)
		fresh.total = web_select(w->options.model, q, fresh.jobs, &fresh.count);
	if (!fresh.key || !fresh.jobs || fresh.total < 0) {
		rows_finish(&fresh);
		return NULL;
	}
	rows_finish(rows);
	*rows = fresh;
	return rows;
}

static int build_line(struct web *w, struct web_line *line)
{
	struct web_clock now;
	struct timeline t;
	web_now(w, &now);
	int64_t span = (int64_t)line->minutes * 60000;
	int r = timeline_build(w->options.model, now.now_ms - span, now.now_ms, span / LINE_GRAINS, &t);
	if (r < 0)
		return r;
	text_clear(&line->json);
	web_put_timeline(&line->json, &t);
	timeline_finish(&t);
	if (text_error(&line->json))
		return -1;
	uint64_t took_ns = clock_now_ns() - now.now_ns;
	line->next_ns = now.now_ns + (took_ns * LINE_SHARE > LINE_NS ? took_ns * LINE_SHARE : LINE_NS);
	line->generation = w->generation;
	line->serial++;
	return 0;
}

const struct web_line *web_cache_line(struct web *w, int minutes)
{
	struct web_line *line = NULL;
	for (size_t i = 0; i < WEB_CACHE && !line; i++)
		if (w->lines[i].minutes == minutes)
			line = &w->lines[i];
	if (line && (line->generation == w->generation || clock_now_ns() < line->next_ns))
		return line;
	if (!line) {
		line = &w->lines[w->next_line++ % WEB_CACHE];
		line->minutes = minutes;
	}
	return build_line(w, line) < 0 ? NULL : line;
}
