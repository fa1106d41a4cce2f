/* SPDX-License-Identifier: MIT */
/* Jobs one below the other, as wide as the terminal and, where it is watched, as high. */
#ifndef CLI_JOB_LIST_H
#define CLI_JOB_LIST_H

#include "base/text.h"
#include "queue/journal/job.h"
#include "queue/journal/job_line.h"

/* Start from {0}. The jobs are somebody else's. */
struct job_list {
	const struct job **jobs;
	size_t count, capacity;
};

int job_list_add(struct job_list *l, const struct job *job);
void job_list_finish(struct job_list *l);

/*
 * For a screen of `most` lines: those that run, the last that failed, the next that wait, the last that are over, in
 * this order.
 */
int job_list_fit(struct job_list *l, size_t most);

/* The columns that all of them share, from width, color and now_ms. last_id: the greatest there is. */
void job_list_measure(const struct job_list *l, uint64_t last_id, struct job_line_options *o);

/* Where a command begins to differ from those of its neighbors in the list, for job_line_options.keep_from. */
size_t job_list_difference(const struct job_list *l, size_t index, size_t columns);

/* For job_line_options.color: the palette that all views share. */
const char *job_list_color(enum job_state state);

#endif
