/* SPDX-License-Identifier: MIT */
/*
 * Processes that a job left behind when its keeper was killed. They become children of the next
 * subreaper, the nursery or the runner, which kills every child that is not one of its own.
 */
#ifndef QUEUE_KEEPER_ORPHANS_H
#define QUEUE_KEEPER_ORPHANS_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether this child of the calling process is one of its own, and stays. */
typedef bool orphans_is_own_fn(void *context, pid_t pid);

/*
 * Kills all other children, with their descendants. True if there were any: call it again after
 * their deaths, because what a dead process left behind is a child by then.
 */
bool orphans_kill(orphans_is_own_fn *is_own, void *context);

#endif
