/* SPDX-License-Identifier: MIT */
/*
 * Processes that a job left behind when its keeper was killed. They become children of the next
 * subreaper, the nursery or the runner, which kills every child that it did not start itself.
 */
#ifndef QUEUE_KEEPER_ORPHANS_H
#define QUEUE_KEEPER_ORPHANS_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether the calling process started this child itself; such a child is not killed. */
typedef bool orphans_is_own_fn(void *context, pid_t pid);

/*
 * Kills all other children, with their descendants. True if there were any: call it again after their
 * deaths, because their own children become ours when they die.
 */
bool orphans_kill(orphans_is_own_fn *is_own, void *context);

#endif
