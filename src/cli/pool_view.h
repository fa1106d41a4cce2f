/* SPDX-License-Identifier: MIT */
/* What a command that runs a pool shows during the run: a panel, or, where a panel is not possible, a line now and
 * then. */
#ifndef CLI_POOL_VIEW_H
#define CLI_POOL_VIEW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/text.h"
#include "cli/run_file.h"

struct pool_panel;

struct pool_view {
	FILE *out;
	bool live;                /* a panel is possible */
	struct pool_panel *panel; /* NULL: none */
	bool told_stop;           /* the message about Ctrl-C was printed */
	double next_seconds;      /* of the run, when the next line of progress is due */
	uint64_t shown_state;     /* of the last line of progress: how many files there were, and were over */
	bool shown_rest;          /* and that none was left */
	struct run_file published;
	struct text worker; /* the words of published.worker */
	char *name;         /* published.name */
};

void pool_view_begin(struct pool_view *v, FILE *out);
/* Workers run from here on. */
void pool_view_start(struct pool_view *v);
/* The run appears in the views of other processes: what it is, what it reads (a path), its worker as words. */
void pool_view_publish(struct pool_view *v, const char *kind, const char *name, const char *const *worker);
/* Whether to print a line of progress, `seconds` after the beginning of the run; the next one is due later. */
bool pool_view_is_due(struct pool_view *v, double seconds);
/* Whole lines, above the panel if there is one. */
void pool_view_print(struct pool_view *v, const struct text *lines);
void pool_view_end(struct pool_view *v);

#endif
