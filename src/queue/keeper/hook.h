/* SPDX-License-Identifier: MIT */
/*
 * A hook (`--on-finish`) as a process, and its input.
 *
 * The input is one object, the job as `gpuq status --json` shows it, in the state in which the end left it for which
 * the hook is run: a job that will be tried again is `failed` here.
 */
#ifndef QUEUE_KEEPER_HOOK_H
#define QUEUE_KEEPER_HOOK_H

#include "base/text.h"
#include "queue/journal/jobs.h"
#include "queue/keeper/attempt.h"

/* How often a hook is begun for one end, where its keepers die. */
#define HOOK_TRIES 3

/* Its value is the number of the try, from 1. Above 1, the hook may have run before for the same end. */
#define HOOK_TRY "GPUQ_HOOK_TRY"

/* What the hook is run for: "finish", or "idle" while the job runs and a GPU of it does nothing. */
#define HOOK_EVENT "GPUQ_HOOK_EVENT"

/* The input for the hook of this job. */
int hook_describe(const struct job *job, const struct due_hook *h, struct text *ret);
/* The same from the lines of the job, the last of which is the end. */
int hook_describe_lines(const struct text *lines, uint64_t id, struct text *ret);

/*
 * Runs the hook, whose output goes to log_fd (-1: nowhere), and waits for it, a bounded time; what it leaves behind is
 * killed. Only in a process all of whose children are its own business; signal_fd tells of them. *ret_status: as from
 * waitpid(). -ETIMEDOUT: something of it does not die, and is still a child. Any other error: nothing was run.
 * *interrupted becomes true if SIGTERM came.
 */
int hook_run(struct attempt *a, unsigned try_number, const struct text *input, int log_fd, int signal_fd,
	int *ret_status, bool *interrupted);

#endif
