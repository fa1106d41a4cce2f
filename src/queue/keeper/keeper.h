/* SPDX-License-Identifier: MIT */
/*
 * The processes between a runner and its jobs.
 *
 *     runner ── nursery ── keeper ── job
 *                     └─── keeper ── job
 *
 * The *nursery* is forked before the runner has read the journal, so it stays
 * small and forks cheaply. It makes keepers, is the subreaper above them, and ends
 * what a killed keeper has left behind. When the runner is gone it stays until
 * its last keeper has left.
 *
 * A *keeper* owns one job at a time: its session, its log, its time limit, its exit
 * status and the lines `start` and `end`. It holds the lock of its own file in
 * keepers/ as long as it lives. It is reused for job after job; when
 * the runner is gone, it finishes the job it has and leaves.
 *
 * The job's first process appends `start` itself, between fork and exec, for it
 * knows its PID; it dies with its keeper (PDEATHSIG). So when nobody holds a
 * keeper's lock, a job of its that has no `end` is not running, or
 * is about to be killed; what it left is found by GPUQ_COOKIE in its environment, or, while
 * the nursery or the runner lives, by being its child: both are subreapers.
 *
 * While its job runs on a GPU that other queues may use as well, the keeper holds the job's claim (claims.h).
 *
 * What a keeper is told and tells, also by a later runner, is in keeper_messages.h.
 */
#ifndef QUEUE_KEEPER_KEEPER_H
#define QUEUE_KEEPER_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include "queue/journal/journal.h"
#include "queue/keeper/nursery.h"

/* The body of a keeper; does not return. fd: its end of the socket. */
_Noreturn void keeper_main(const struct nursery_options *options, int fd);

/* Tells the keeper of that name to end the job, whoever started it. -ENOENT, -ECONNREFUSED: it has left. */
int keeper_cancel(const struct journal *j, const char *keeper, uint64_t id);
/* Stops the processes of its job, or lets them go on, in the same way. */
int keeper_pause(const struct journal *j, const char *keeper, uint64_t id, bool paused);

#endif
