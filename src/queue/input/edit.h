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
	const char *command; /* NULL: unchanged */
};

struct edit_result {
	size_t done;
	size_t pending;     /* how many of these a runner may start */
	struct id_list ids; /* the changed jobs */
};

void edit_result_finish(struct edit_result *result);

/*
 * Changes all jobs of the selection that are pending or held, under one lock. Raises the fence, which voids starts that
 * were decided before: a job either has started, and is refused, or starts with the new values. If a job that was named
 * by its id cannot be changed, the whole edit fails. -EINVAL and -ENOENT with a message. The result is the caller's,
 * also after a failure.
 */
int edit_jobs(struct journal *j, const struct job_selection *jobs, const struct edit *e, struct edit_result *ret,
	struct gd_error *err);

#endif
