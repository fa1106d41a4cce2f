/* SPDX-License-Identifier: MIT */
/*
 * The processes between a runner and its jobs.
 *
 *     runner ── nursery ── keeper ── job
 *                     └─── keeper ── job
 *
 * The *nursery* is forked before the runner has read the journal, so it stays small and forks cheaply.
 * It forks keepers, is their subreaper, and kills processes that a killed keeper left behind. After
 * the runner is gone, it stays until its last keeper has exited.
 *
 * A *keeper* owns one job at a time: its session, its log, its time limit, its exit status and its
 * `start` and `end` lines. As long as it lives, it holds the lock of its own file in keepers/. It is
 * reused for job after job; when the runner is gone, it finishes its current job and exits.
 *
 * The job's first process appends `start` itself, between fork and exec, because it knows its PID; it
 * dies with its keeper (PDEATHSIG). So if a keeper's lock is free, a job of that keeper without an
 * `end` is not running, or is about to be killed. Processes that the job left behind are found by
 * GPUQ_COOKIE in their environment, or as children of the nursery or the runner while these live: both
 * are subreapers.
 *
 * While its job runs on a GPU that other queues may also use, the keeper holds the job's claim
 * (claims.h).
 *
 * keeper_messages.h defines the messages to and from a keeper, including those of a later runner.
 */
#ifndef QUEUE_KEEPER_KEEPER_H
#define QUEUE_KEEPER_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include "queue/journal/journal.h"
#include "queue/keeper/nursery.h"

/* The main function of a keeper; does not return. fd: its end of the socket. */
_Noreturn void keeper_main(const struct nursery_options *options, int fd);

/* Tells the keeper of that name to end the job, regardless of who started it. -ENOENT, -ECONNREFUSED: it has exited. */
int keeper_cancel(const struct journal *j, const char *keeper, uint64_t id);
/* Likewise stops or continues the processes of its job. */
int keeper_pause(const struct journal *j, const char *keeper, uint64_t id, bool paused);

#endif
