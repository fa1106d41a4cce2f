/* SPDX-License-Identifier: MIT */
/* Keeps the published inputs (published.h) up to date. */
#ifndef QUEUE_RUNNER_RUNNER_PUBLISH_H
#define QUEUE_RUNNER_RUNNER_PUBLISH_H

struct runner;

int runner_publish_open(struct runner *r);
/* At the end of each round: writes changes, at once or when PUBLISH_MS have passed since the last write. */
void runner_publish(struct runner *r);
/*
 * Before the runner gives up its lock: if jobs are left, writes the inputs once more. Their time then shows that this
 * runner has seen these jobs and could start none of them.
 */
void runner_publish_last(struct runner *r);
void runner_publish_close(struct runner *r);

#endif
