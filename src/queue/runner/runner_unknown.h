/* SPDX-License-Identifier: MIT */
/*
 * Jobs of which a record was lost, while their keepers live.
 *
 * The journal does not say that such a job runs, but its keeper's file does (keeper_job.h). What the job needs stays
 * booked until the keeper has left or has written the end.
 */
#ifndef QUEUE_RUNNER_RUNNER_UNKNOWN_H
#define QUEUE_RUNNER_RUNNER_UNKNOWN_H

#include <stdbool.h>
#include <stdint.h>

struct runner;

/* Books what keepers have, and lets go what they have no longer. */
void runner_unknown_check(struct runner *r);
/* The journal tells more of the job now. */
void runner_unknown_forget(struct runner *r, uint64_t id);
/* Before all jobs are read anew, and at the end. */
void runner_unknown_forget_all(struct runner *r);

#endif
