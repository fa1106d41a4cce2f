/* SPDX-License-Identifier: MIT */
/* The output of a command that runs a pool, during the run: a panel, or, if a panel is not possible, a line from time
 * to time. */
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
	struct pool_panel *panel; /* NULL: no panel */
	bool told_stop;           /* the message about Ctrl-C was printed */
	double next_seconds;      /* run time at which the next progress line is due */
	uint64_t shown_state;     /* last progress line: total, done and failed files, added up */
	bool shown_rest;          /* last progress line: no file was left */
	struct run_file published;
	struct text worker; /* the words of published.worker */
	char *name;         /* published.name */
};

void pool_view_begin(struct pool_view *v, FILE *out);
/* Call before the workers start. */
void pool_view_start(struct pool_view *v);
/* Publishes the run for the views of other processes: its kind, its input (a path), and its worker's command. */
void pool_view_publish(struct pool_view *v, const char *kind, const char *name, const char *const *worker);
/* Whether to print a progress line, `seconds` after the beginning of the run; if so, schedules the next one. */
bool pool_view_is_due(struct pool_view *v, double seconds);
/* Prints whole lines, above the panel if there is one. */
void pool_view_print(struct pool_view *v, const struct text *lines);
void pool_view_end(struct pool_view *v);

#endif
