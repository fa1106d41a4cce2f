/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "view/web/web_private.h"

/* The resolution of a timeline, in columns; narrower bars are joined. */
#define TIMELINE_COLUMNS 400
/* The shortest time between two builds; longer if building takes more than a 25th of it. */
#define TIMELINE_PERIOD_NS NS_PER_S
#define TIMELINE_SHARE     25

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
		text_finish(&w->timelines[i].json);
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

static int build_timeline(struct web *w, struct web_timeline *timeline)
{
	struct web_clock now;
	struct timeline t;
	web_now(w, &now);
	int64_t span = (int64_t)timeline->minutes * 60000;
	int r = timeline_build(w->options.model, now.now_ms - span, now.now_ms, span / TIMELINE_COLUMNS, &t);
	if (r < 0)
		return r;
	text_clear(&timeline->json);
	web_put_timeline(&timeline->json, &t);
	timeline_finish(&t);
	if (text_error(&timeline->json))
		return -1;
	uint64_t took_ns = clock_now_ns() - now.now_ns;
	uint64_t period_ns = took_ns * TIMELINE_SHARE;
	timeline->next_ns = now.now_ns + (period_ns > TIMELINE_PERIOD_NS ? period_ns : TIMELINE_PERIOD_NS);
	timeline->generation = w->generation;
	timeline->serial++;
	return 0;
}

const struct web_timeline *web_cache_timeline(struct web *w, int minutes)
{
	struct web_timeline *timeline = NULL;
	for (size_t i = 0; i < WEB_CACHE && !timeline; i++)
		if (w->timelines[i].minutes == minutes)
			timeline = &w->timelines[i];
	if (timeline && (timeline->generation == w->generation || clock_now_ns() < timeline->next_ns))
		return timeline;
	if (!timeline) {
		timeline = &w->timelines[w->next_timeline++ % WEB_CACHE];
		timeline->minutes = minutes;
	}
	return build_timeline(w, timeline) < 0 ? NULL : timeline;
}
