/* SPDX-License-Identifier: MIT */
/* The data of the page as JSON: pure code, from the model. Times are wall-clock milliseconds. */
#ifndef VIEW_WEB_WEB_JSON_H
#define VIEW_WEB_WEB_JSON_H

#include "base/text.h"
#include "view/model/actions.h"
#include "view/model/model.h"
#include "view/web/timeline.h"

struct web_clock {
	int64_t now_ms;
	uint64_t now_ns;
	int64_t offset_ns; /* wall clock − monotonic clock */
};

/* Counts, rate, GPUs, and the samples of each GPU that are newer than since_ms. */
void web_put_state(struct text *t, const struct view_model *m, const struct view_facts *facts, bool may_act,
	const struct web_clock *clock, int64_t since_ms);

/* A job as a row of the table, with its command cut after a few hundred characters. */
void web_put_row(struct text *t, const struct view_job *job);

/* All facts about a job except its environment and what it waits for, as members of an open object. */
void web_put_job(struct text *t, const struct view_job *job);

void web_put_timeline(struct text *t, const struct timeline *line);

/* ---- Which jobs a page shows --------------------------------------------------- */

#define WEB_MAX_ROWS 500

struct web_query {
	struct view_selection selection;
	/*
	 * The usual order, instead of selection.order: running jobs, the last started first; waiting jobs, the next to
	 * start first; ended jobs, the newest first.
	 */
	bool usual;
	size_t offset, limit; /* limit: at most WEB_MAX_ROWS */
};

/* Writes the jobs of the page to ret[0…limit) and their number to *ret_count; returns how many match in total, or
 * -ENOMEM. */
int64_t web_select(
	const struct view_model *m, const struct web_query *q, const struct view_job **ret, size_t *ret_count);

/* "running,pending" as bits; -1 for an unknown state. "" and NULL: 0. */
int web_parse_states(const char *words);
/* "usual", "id", "state", "start", "duration", "gpu", "memory", "name" into the query; -1 for an unknown word. */
int web_parse_order(const char *word, struct web_query *q);

#endif
