/* SPDX-License-Identifier: MIT */
/*
 * Finds the default queue: in this directory, in a parent directory, or the user's personal queue on this
 * machine. queue_choice.c decides; this module only searches.
 */
#ifndef CLI_QUEUE_PLACE_H
#define CLI_QUEUE_PLACE_H

#include <stdbool.h>

#include "gpu_dispatch.h"

#define QUEUE_PLACE_HERE "./jobs.jsonl"

/* Whether this directory contains a file with the name of a journal, even one of another user. */
bool queue_place_is_here(void);

/*
 * The journal of the nearest parent directory below $HOME, if it is a regular file of the user; NULL if there is none.
 * *ret_skipped: a file of another user that is nearer, or NULL. Release both with free().
 */
int queue_place_find_above(char **ret, char **ret_skipped);

/*
 * The journal of the personal queue, $XDG_STATE_HOME/gpuq/HOST/jobs.jsonl. There is one per host, because hosts can
 * share a home directory. make: creates its directory, accessible only to the user. Release with free().
 */
int queue_place_personal(bool make, char **ret, struct gd_error *err);

#endif
