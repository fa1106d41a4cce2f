/* SPDX-License-Identifier: MIT */
/* Telling a queue what to do with jobs that it has: cancel, hold, release, urgent, retry. */
#ifndef QUEUE_INPUT_CONTROL_H
#define QUEUE_INPUT_CONTROL_H

#include "gpu_dispatch.h"
#include "queue/input/id_list.h"
#include "queue/journal/journal.h"
#include "queue/journal/record.h"

/*
 * Why it could not be done to ids[index] of those that were given. -ETIMEDOUT: it was done, but the keeper of the
 * running job does not answer and there is no runner, which would tell it, too.
 */
typedef void control_refused_fn(void *context, size_t index, const struct gd_error *why);

/*
 * Does it to every job of the list that allows it, under one lock, and calls `refused`
 * for the others. Also signals the keepers of running jobs that are cancelled.
 * *ret_done: to how many jobs it was done.
 */
int control_jobs(struct journal *j, enum event event, const struct id_list *ids, control_refused_fn *refused,
	void *context, size_t *ret_done, struct gd_error *err);

#endif
