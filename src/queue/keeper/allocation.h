/* SPDX-License-Identifier: MIT */
/*
 * An allocation: a job of a batch system, or a container. All processes in it end together with it.
 *
 * When it ends, a process in it may get a signal just before the runner does, or be killed together
 * with the runner and the keepers. A job that ends this way is *interrupted*: it neither completed nor
 * failed, uses up no retry, and is pending for the next run.
 */
#ifndef QUEUE_KEEPER_ALLOCATION_H
#define QUEUE_KEEPER_ALLOCATION_H

#include <stdbool.h>

#define ALLOCATION_TEXT 64

/* How long to hold back the end of a job that has exited: the end of its allocation may turn out to be the cause. */
#define ALLOCATION_EXIT_MS 150
/* The same for a job that was killed by a signal that we did not send. */
#define ALLOCATION_SIGNAL_MS 2000

/*
 * A job whose runner and keeper were killed with their allocation is pending again at most this many times; the next
 * time, it fails.
 */
#define ALLOCATION_LOSSES 3

/*
 * The allocation of this process, the runner: "slurm-1234.0"; or "init-…" with a random number if this
 * process is PID 1 (in a container); or "" if there is none.
 */
void allocation_get(char ret[ALLOCATION_TEXT]);

/*
 * Whether an entry of an environment, NAME=VALUE, describes an allocation. A job gets the variables of
 * the allocation it runs in, not of the one it was added in, which may have ended.
 */
bool allocation_is_variable(const char *entry);

#endif
