/* SPDX-License-Identifier: MIT */
/* Controls for jobs of a queue: cancel, hold, release, urgent, retry. */
#ifndef QUEUE_INPUT_CONTROL_H
#define QUEUE_INPUT_CONTROL_H

#include "gpu_dispatch.h"
#include "queue/input/id_list.h"
#include "queue/journal/journal.h"
#include "queue/journal/record.h"

/*
 * Reports why the control could not be applied to ids[index]. -ETIMEDOUT: it was recorded, but the keeper of the
 * running job does not answer and no runner is active that would tell the keeper.
 */
typedef void control_refused_fn(void *context, size_t index, const struct gd_error *why);

/*
 * Applies the control to every job of the list that allows it, under one lock, and calls `refused` for the others. Also
 * signals the keepers of running jobs that are cancelled. *ret_done: number of jobs it was applied to.
 */
int control_jobs(struct journal *j, enum event event, const struct id_list *ids, control_refused_fn *refused,
	void *context, size_t *ret_done, struct gd_error *err);

#endif
