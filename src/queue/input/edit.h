/* SPDX-License-Identifier: MIT */
/* Changing jobs that have not started. */
#ifndef QUEUE_INPUT_EDIT_H
#define QUEUE_INPUT_EDIT_H

#include "gpu_dispatch.h"
#include "queue/input/job_options.h"
#include "queue/input/job_selection.h"
#include "queue/journal/journal.h"

struct edit {
	struct job_options options;
	const char *command; /* or NULL: stays as it is */
};

struct edit_result {
	size_t done;
	size_t pending; /* of those: jobs that a runner may start */
};

/*
 * Changes all jobs of the selection that are pending or held, under one lock. Raises the fence, so that no start that
 * was decided before goes through: a job either has started, and is refused, or starts with the new values. A job that
 * was named by its id and cannot be changed makes the whole edit fail. -EINVAL and -ENOENT with words.
 */
int edit_jobs(struct journal *j, const struct job_selection *jobs, const struct edit *e, struct edit_result *ret,
	struct gd_error *err);

#endif
