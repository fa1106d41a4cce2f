/* SPDX-License-Identifier: MIT */
/*
 * What is run after an attempt: `--on-finish`.
 *
 * It gets one object on its standard input, the job as `gpuq status --json` shows it, in the state in
 * which this attempt left it: a job that will be tried again is `failed` here.
 */
#ifndef QUEUE_KEEPER_HOOK_H
#define QUEUE_KEEPER_HOOK_H

#include "base/text.h"
#include "queue/journal/jobs.h"
#include "queue/journal/journal.h"
#include "queue/keeper/attempt.h"

/*
 * The job alone, as the journal has it. To be asked before its end is written: from then on a prune may take
 * it out. -ENOENT where it is not there; -EPERM where another user has put a journal in place.
 */
int hook_read_job(const struct journal *j, uint64_t id, struct jobs *ret);

/* The object of a job as it is, but for one that will be tried again: that is as its last attempt left it. */
int hook_describe_job(struct job *job, struct text *ret);

/* The same for a job of hook_read_job(), with the end that has been written since. */
int hook_describe(struct jobs *js, uint64_t id, const struct text *end_line, struct text *ret);

/*
 * Waits for it, a bounded time; what it leaves behind is killed. Only in a process all of whose children
 * are its own business; signal_fd tells of them. -ETIMEDOUT where something of it does not die: it is still a child.
 */
int hook_run(const struct attempt *a, const struct text *input, int signal_fd);

#endif
