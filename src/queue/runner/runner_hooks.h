/* SPDX-License-Identifier: MIT */
/*
 * Due hooks that no living keeper has: hooks of ends that no keeper wrote (a job failed because of
 * another job, was cancelled while it waited, or lost its keeper), and hooks whose keeper died. The
 * runner hands them to other keepers, a few at a time.
 *
 * A hook runs at least once for each end, unless its keepers die HOOK_TRIES times; then it is given up.
 */
#ifndef QUEUE_RUNNER_RUNNER_HOOKS_H
#define QUEUE_RUNNER_RUNNER_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

struct job;
struct record;
struct runner;

/* The hook of a job: its own, or this runner's; NULL: none. */
const char *runner_hook_of(const struct runner *r, const struct job *job);
/* The same, but NULL if it is the job's own. The line of the end must name such a hook. */
const char *runner_hook_to_record(const struct runner *r, const struct job *job);
/* For a job that was cancelled while it waited and has no hook of its own: makes this runner's hook due. */
void runner_hook_add(struct runner *r, const struct job *job);
/* For struct jobs: reports that a hook has failed. context: the runner. */
void runner_on_hook_failed(void *context, const struct job *job, const struct record *outcome);
/* Whether a hook is due that this machine must run. */
bool runner_hooks_are_due(const struct runner *r);
/* Hands out the hooks that no keeper has. */
void runner_hooks_run(struct runner *r);

#endif
