/* SPDX-License-Identifier: MIT */
/* Pauses a queue, which then starts no jobs, or pauses running jobs, which are stopped and keep their memory. */
#ifndef QUEUE_INPUT_PAUSE_H
#define QUEUE_INPUT_PAUSE_H

#include <stdbool.h>

#include "queue/input/control.h"
#include "queue/input/id_list.h"

/* *ret_changed: whether the state changed. */
int pause_queue(struct journal *j, bool paused, bool *ret_changed, struct gd_error *err);

/*
 * Pauses or resumes every job of the list that allows it, through its keeper, and records it; calls `refused` for the
 * others. *ret_done: number of jobs paused or resumed.
 */
int pause_jobs(struct journal *j, bool paused, const struct id_list *ids, control_refused_fn *refused, void *context,
	size_t *ret_done, struct gd_error *err);

#endif
