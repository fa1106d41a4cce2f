/* SPDX-License-Identifier: MIT */
/*
 * Where the queue is that nobody named: in this directory, in one above it, or the user's personal queue on this
 * machine. queue_choice.c decides; this module only looks.
 */
#ifndef CLI_QUEUE_PLACE_H
#define CLI_QUEUE_PLACE_H

#include <stdbool.h>

#include "gpu_dispatch.h"

#define QUEUE_PLACE_HERE "./jobs.jsonl"

/* Whether something has the name of a journal in this directory, also a file of another user. */
bool queue_place_is_here(void);

/*
 * The journal of the nearest parent directory below $HOME, if it is a regular file of the user; NULL if there is none.
 * *ret_skipped: a file of another user that is nearer, or NULL. Release both with free().
 */
int queue_place_find_above(char **ret, char **ret_skipped);

/*
 * The journal of the personal queue, $XDG_STATE_HOME/gpuq/HOST/jobs.jsonl. There is one per host, because a home can be
 * shared by several. make: makes its directory, for the user alone. Release with free().
 */
int queue_place_personal(bool make, char **ret, struct gd_error *err);

#endif
