/* SPDX-License-Identifier: MIT */
/* A list of jobs, as wide as the terminal and, with --watch, as high. */
#ifndef CLI_JOB_LIST_H
#define CLI_JOB_LIST_H

#include "base/text.h"
#include "queue/journal/job.h"
#include "queue/journal/job_line.h"

/* Start from {0}. The jobs are borrowed. */
struct job_list {
	const struct job **jobs;
	size_t count, capacity;
};

int job_list_add(struct job_list *l, const struct job *job);
void job_list_finish(struct job_list *l);

/*
 * Keeps the jobs that fit on a screen of `most` lines: running jobs, the last failed, the next waiting and the last
 * ended ones, in this order.
 */
int job_list_fit(struct job_list *l, size_t most);

/* Computes the common columns from width, color and now_ms. last_id: the largest id. */
void job_list_measure(const struct job_list *l, uint64_t last_id, struct job_line_options *o);

/* Where a command begins to differ from its neighbors in the list, for job_line_options.keep_from. */
size_t job_list_difference(const struct job_list *l, size_t index, size_t columns);

/* For job_line_options.color: the palette that all views share. */
const char *job_list_color(enum job_state state);

#endif
