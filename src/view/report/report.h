/* SPDX-License-Identifier: MIT */
/*
 * One page about a queue, or about what gpuq launch did: self-contained HTML with pictures, for the screen
 * (light and dark) and for paper. It needs no script and loads nothing.
 */
#ifndef VIEW_REPORT_REPORT_H
#define VIEW_REPORT_REPORT_H

#include "base/text.h"
#include "view/model/model.h"

/* What a model needs to be created with so that no sample is lost. */
#define REPORT_HISTORY 40000

/* What a launch knows of its files; each is a job of the model, its path the command. */
struct report_launch {
	const double *audio_seconds; /* of job id at [id - 1]; -1: not known */
	size_t count;
	double wall_seconds; /* of all runs together */
};

struct report {
	const struct view_model *model;
	const char *queue; /* its journal, or the folder of a launch */
	int64_t now_ms;
	int64_t since_ms;                   /* 0: all there is */
	const struct report_launch *launch; /* NULL: a queue */
	const struct view_run *runs;        /* launches and maps: those that are over by start, then those that run */
	size_t num_runs;
};

/* Appends the page. 0 or -ENOMEM. */
int report_write(const struct report *r, struct text *out);

#endif
