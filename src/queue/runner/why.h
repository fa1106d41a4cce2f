/* SPDX-License-Identifier: MIT */
/*
 * The answer of `gpuq why`: what a job waits for.
 *
 * It is found without asking the runner: from the journal, from the rules that the runner wrote
 * into its lock file, and from the GPUs as they are now.
 */
#ifndef QUEUE_RUNNER_WHY_H
#define QUEUE_RUNNER_WHY_H

#include "base/text.h"
#include "queue/journal/follow.h"
#include "queue/runner/runner_rules.h"

/*
 * Appends lines, each with its newline. `rules`: the caller's own, used if no runner is active. `gpus`: the runner's
 * GPUs as they are now; NULL: they are read here, which takes as long as their drivers take.
 */
int why_write(struct follow *f, const struct job *job, const struct runner_rules *rules, const struct gd_gpu_list *gpus,
	struct text *t, struct gd_error *err);

#endif
