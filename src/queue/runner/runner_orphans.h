/* SPDX-License-Identifier: MIT */
/*
 * Processes that are left when a keeper and its nursery are killed together. They become children of
 * the runner, which is a subreaper and kills them.
 */
#ifndef QUEUE_RUNNER_RUNNER_ORPHANS_H
#define QUEUE_RUNNER_RUNNER_ORPHANS_H

struct runner;

/* Call it before the nursery is started. */
void runner_orphans_open(struct runner *r);
/* Call it after SIGCHLD. */
void runner_orphans_reap(struct runner *r);
/*
 * At the end, with all sockets closed: waits for the nursery and reaps it, if no job continues below
 * it. The process that would inherit the nursery, such as PID 1 of a container, may never reap it.
 */
void runner_orphans_close(struct runner *r);

#endif
