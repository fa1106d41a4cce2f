/* SPDX-License-Identifier: MIT */
/*
 * Hooks that are due and that no living keeper has in hand: those of ends that no keeper wrote (a job failed because of
 * another one, was cancelled while it waited, or lost its keeper), and those whose keeper died. The runner has another
 * keeper run them, a few at a time.
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

/* The hook of a job: its own, or that of this runner; NULL: none. */
const char *runner_hook_of(const struct runner *r, const struct job *job);
/* The same if it is not the job's own: then the line of the end must name it. */
const char *runner_hook_to_record(const struct runner *r, const struct job *job);
/* A job was cancelled while it waited, and has no hook of its own: makes that of this runner due. */
void runner_hook_add(struct runner *r, const struct job *job);
/* For struct jobs: says that a hook has failed. context: the runner. */
void runner_on_hook_failed(void *context, const struct job *job, const struct record *outcome);
/* Whether there is a hook that this machine has to run. */
bool runner_hooks_are_due(const struct runner *r);
/* Hands out the hooks that nobody runs. */
void runner_hooks_run(struct runner *r);

#endif
