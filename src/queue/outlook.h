/* SPDX-License-Identifier: MIT */
/*
 * What a job waits for, as an onlooker can tell: from the journal, from what the
 * runner wrote into its lock file, and from the GPUs as they are now.
 */
#ifndef QUEUE_OUTLOOK_H
#define QUEUE_OUTLOOK_H

#include "queue/follow.h"
#include "queue/runner_rules.h"

/* Lines, each with its newline. `rules`: the caller's own, for when nobody runs the queue. */
int outlook(struct follow *f, const struct job *job, const struct runner_rules *rules, struct text *t,
	struct gd_error *err);

#endif
