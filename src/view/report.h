/* SPDX-License-Identifier: MIT */
/*
 * One page about a queue: self-contained HTML with pictures, for the screen
 * (light and dark) and for paper. It needs no script and loads nothing.
 */
#ifndef VIEW_REPORT_H
#define VIEW_REPORT_H

#include "base/text.h"
#include "view/model.h"

/* What a model needs to be created with so that no sample is lost. */
#define REPORT_HISTORY 40000

struct report {
	const struct view_model *model;
	const char *queue; /* its journal */
	int64_t now_ms;
	int64_t since_ms; /* 0: all there is */
};

/* Appends the page. 0 or -ENOMEM. */
int report_write(const struct report *r, struct text *out);

/* ---- Between the parts ------------------------------------------------------------- */

/* Everything up to the first section. `title` is escaped. */
void report_begin(struct text *t, const char *title, const char *subject);
void report_end(struct text *t, int64_t now_ms);
/* One figure of many at the top of the page; mark: "bad" or NULL. */
void report_tile(struct text *t, const char *mark, const char *name, const char *format, ...) GD_PRINTF(4, 5);

#endif
