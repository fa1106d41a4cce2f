/* SPDX-License-Identifier: MIT */
/*
 * What ends together with everything in it: a job of a batch system, or a container.
 *
 * When it ends, a process in it may be signalled by others just before the runner is, or be killed with the runner and
 * the keepers. A job that ends so is *interrupted*: it neither completed nor failed, spends no retry, and is pending
 * for the next run.
 */
#ifndef QUEUE_KEEPER_ALLOCATION_H
#define QUEUE_KEEPER_ALLOCATION_H

#include <stdbool.h>

#define ALLOCATION_TEXT 64

/* How long the end of a job is held back: an exit so shortly before the end of the allocation may be due to it… */
#define ALLOCATION_EXIT_MS 150
/* …and a death by a signal that we did not send. */
#define ALLOCATION_SIGNAL_MS 2000

/* So often the runner and the keeper of a job may be killed with their allocation, until the job has failed. */
#define ALLOCATION_LOSSES 3

/*
 * The one that this process, the runner, is in: "slurm-1234.0", or "init-…" with a random number for PID 1; "":
 * none.
 */
void allocation_get(char ret[ALLOCATION_TEXT]);

/*
 * Whether an entry of an environment, NAME=VALUE, describes an allocation. A job gets those of the allocation it runs
 * in, not those of the one it was added in: that one may be over.
 */
bool allocation_is_variable(const char *entry);

#endif
