/* SPDX-License-Identifier: MIT */
/*
 * What is done for many jobs at once, a moment after the first of them: syncing the journal,
 * so that ends survive a power cut, and the link `latest` to the newest log.
 */
#ifndef QUEUE_RUNNER_RUNNER_SYNC_H
#define QUEUE_RUNNER_RUNNER_SYNC_H

struct runner;

int runner_sync_open(struct runner *r);
void runner_sync_plan(struct runner *r);
/* The last one, which waits for the disk. */
void runner_sync_now(struct runner *r);

#endif
