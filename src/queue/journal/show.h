/* SPDX-License-Identifier: MIT */
/* A job as people and programs read it. */
#ifndef QUEUE_JOURNAL_SHOW_H
#define QUEUE_JOURNAL_SHOW_H

#include "base/text.h"
#include "queue/journal/job.h"

struct show_options {
	size_t id_width;      /* columns; 0: no id */
	size_t command_width; /* columns, filled up; 0: as long as it is, at most 60 */
	size_t name_width;    /* 0: no column for it */
	size_t width;         /* of the whole line, which is cut to it; 0: no limit */
	bool colour;
	int64_t now_ms; /* for the time of a running job; 0: not shown */
};

/* "[→] 3 python train.py → GPU 0 → Running (PID 1234)", without a newline. */
void show_line(struct text *t, const struct job *job, const struct show_options *o);

/* Columns before the id. */
#define SHOW_MARK_WIDTH 4
/* Columns behind the command. */
size_t show_rest_width(const struct job *job, const struct show_options *o);

/* The last column alone: "Failed (exit 3)". */
void show_outcome(struct text *t, const struct job *job);

/* One object, as `gpuq status --json` has it; without a newline. */
void show_json(struct text *t, const struct job *job);

#endif
