/* SPDX-License-Identifier: MIT */
/*
 * A hook (`--on-finish`) as a process, and its input.
 *
 * The input is one JSON object, the job as `gpuq status --json` shows it, in its state right after the
 * end that the hook is run for: a job that will be retried is `failed` here.
 */
#ifndef QUEUE_KEEPER_HOOK_H
#define QUEUE_KEEPER_HOOK_H

#include "base/text.h"
#include "queue/journal/jobs.h"
#include "queue/keeper/attempt.h"

/* How many times a hook is started for one end if its keepers die. */
#define HOOK_TRIES 3

/* Its value is the number of the try, from 1. Above 1, the hook may have run before for the same end. */
#define HOOK_TRY "GPUQ_HOOK_TRY"

/* Why the hook is run: "finish", or "idle" if a GPU of the running job is idle. */
#define HOOK_EVENT "GPUQ_HOOK_EVENT"

/* The input for the hook of this job. */
int hook_describe(const struct job *job, const struct due_hook *h, struct text *ret);
/* The same from the job's journal lines, the last of which is the end. */
int hook_describe_lines(const struct text *lines, uint64_t id, struct text *ret);

/*
 * Runs the hook and waits for it, for a bounded time; processes that it leaves behind are killed. Its
 * output goes to log_fd (-1: nowhere). Call it only in a process that may reap and kill all its
 * children; signal_fd reports their deaths. *ret_status: as from waitpid(). -ETIMEDOUT: a process of
 * the hook does not die, and is still a child. Any other error: nothing was run. *interrupted becomes
 * true if SIGTERM arrives.
 */
int hook_run(struct attempt *a, unsigned try_number, const struct text *input, int log_fd, int signal_fd,
	int *ret_status, bool *interrupted);

#endif
