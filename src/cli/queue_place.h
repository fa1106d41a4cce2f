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
/* Whether that file belongs to another user, but not to root. */
bool queue_place_is_planted(void);

/* Whether a journal in this directory would be refused, because other users can change the directory; *ret_why: how. */
bool queue_place_is_refused(struct gd_error *ret_why);

/* A file that is not used although it is nearer. Start from {0}. */
struct queue_place_skipped {
	char *path; /* NULL: there is none */
	char *why;  /* why other users could have put this file of the user there; NULL: it belongs to another user */
};

void queue_place_skipped_finish(struct queue_place_skipped *s);

/*
 * The journal of the nearest parent directory below $HOME, if it is a regular file of the user, and no other user could
 * have put it there; NULL if there is none. A user who can write the directory can move any file of this user there,
 * and must not be able to stop commands in directories below it. trust: the user accepts such directories. Release *ret
 * with free().
 */
int queue_place_find_above(bool trust, char **ret, struct queue_place_skipped *ret_skipped);

/*
 * The journal of the personal queue, $XDG_STATE_HOME/gpuq/HOST/jobs.jsonl. There is one per host, because hosts can
 * share a home directory. make: creates its directory, accessible only to the user. Release with free().
 */
int queue_place_personal(bool make, char **ret, struct gd_error *err);

#endif
