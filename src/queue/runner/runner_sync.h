/* SPDX-License-Identifier: MIT */
/*
 * Syncs the journal, so that ends survive a power cut: once for many jobs, shortly after the first of
 * them. The link `latest` (runner_latest.h) is made at the same time.
 */
#ifndef QUEUE_RUNNER_RUNNER_SYNC_H
#define QUEUE_RUNNER_RUNNER_SYNC_H

struct runner;

int runner_sync_open(struct runner *r);
void runner_sync_plan(struct runner *r);
/* The last sync, which waits for the disk. */
void runner_sync_now(struct runner *r);

#endif
