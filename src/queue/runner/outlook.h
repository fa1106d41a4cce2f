/* SPDX-License-Identifier: MIT */
/*
 * What a job waits for, as an onlooker can tell: from the journal, from what the
 * runner wrote into its lock file, and from the GPUs as they are now.
 */
#ifndef QUEUE_RUNNER_OUTLOOK_H
#define QUEUE_RUNNER_OUTLOOK_H

#include "base/text.h"
#include "queue/journal/follow.h"
#include "queue/runner/runner_rules.h"

/*
 * Lines, each with its newline. `rules`: the caller's own, for when nobody runs the queue. `gpus`: those of the
 * runner as they are now, from who follows them anyway; NULL: they are asked, which takes as long as their drivers do.
 */
int outlook(struct follow *f, const struct job *job, const struct runner_rules *rules, const struct gd_gpu_list *gpus,
	struct text *t, struct gd_error *err);

#endif
