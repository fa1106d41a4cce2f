/* SPDX-License-Identifier: MIT */
/*
 * Jobs with a lost record and a living keeper.
 *
 * The journal does not show that such a job runs, but its keeper's file does (keeper_job.h). The job's
 * resources stay booked until the keeper has exited or has written the end.
 */
#ifndef QUEUE_RUNNER_RUNNER_UNKNOWN_H
#define QUEUE_RUNNER_RUNNER_UNKNOWN_H

#include <stdbool.h>
#include <stdint.h>

struct runner;

/* Books the resources of jobs that keepers have, and releases those of jobs that they no longer have. */
void runner_unknown_check(struct runner *r);
/* The journal has the job's state again. */
void runner_unknown_forget(struct runner *r, uint64_t id);
/* Call it before all jobs are reread, and at the end. */
void runner_unknown_forget_all(struct runner *r);

#endif
