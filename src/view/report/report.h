/* SPDX-License-Identifier: MIT */
/*
 * One page about a queue, or about the runs of gpuq launch: self-contained HTML with charts, for the screen (light and
 * dark) and for print. It needs no script and loads nothing.
 */
#ifndef VIEW_REPORT_REPORT_H
#define VIEW_REPORT_REPORT_H

#include "base/text.h"
#include "view/model/model.h"

/* The `history` of view_model_create() that loses no sample. */
#define REPORT_HISTORY 40000

/*
 * GPUs of a cluster have numbers from here on, and names such as "node3:1", of letters, digits and ".-_:" only.
 */
#define REPORT_NODE_GPUS 100000
#define REPORT_NODE_MAX  63
#define REPORT_GPU_NAME  (REPORT_NODE_MAX + 12)

/* Facts about the files of a launch; each file is a job of the model, with its path as the command. */
struct report_launch {
	const double *audio_seconds; /* of job id at [id - 1]; -1: unknown */
	size_t count;
	double wall_seconds; /* of all runs together */
};

struct report {
	const struct view_model *model;
	const char *queue; /* its journal, or the folder of a launch */
	int64_t now_ms;
	int64_t since_ms;                   /* 0: everything */
	const struct report_launch *launch; /* NULL: a queue */
	const struct view_run *runs;        /* launches and maps: ended ones by start time, then running ones */
	size_t num_runs;
};

/* Appends the page. 0 or -ENOMEM. */
int report_write(const struct report *r, struct text *out);

#endif
