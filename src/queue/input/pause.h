/* SPDX-License-Identifier: MIT */
/* Pausing a queue, which starts nothing then, or jobs that run: their processes are stopped and keep their memory. */
#ifndef QUEUE_INPUT_PAUSE_H
#define QUEUE_INPUT_PAUSE_H

#include <stdbool.h>

#include "queue/input/control.h"
#include "queue/input/id_list.h"

/* *ret_changed: it was not so before. */
int pause_queue(struct journal *j, bool paused, bool *ret_changed, struct gd_error *err);

/*
 * Tells the keepers and writes it down, for every job of the list that allows it; calls `refused` for the others.
 * *ret_done: for how many it was done.
 */
int pause_jobs(struct journal *j, bool paused, const struct id_list *ids, control_refused_fn *refused, void *context,
	size_t *ret_done, struct gd_error *err);

#endif
