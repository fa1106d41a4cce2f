/* SPDX-License-Identifier: MIT */
/*
 * Processes that are left when a keeper and its nursery are killed together. They become
 * children of the runner, which is a subreaper, and are killed by it.
 */
#ifndef QUEUE_RUNNER_RUNNER_ORPHANS_H
#define QUEUE_RUNNER_RUNNER_ORPHANS_H

struct runner;

/* Before the nursery is started. */
void runner_orphans_open(struct runner *r);
/* After SIGCHLD. */
void runner_orphans_reap(struct runner *r);
/*
 * At the end, with all sockets closed: waits for the nursery and reaps it, if no job goes on below it. The process that
 * would inherit it, such as PID 1 of a container, may reap nothing.
 */
void runner_orphans_close(struct runner *r);

#endif
