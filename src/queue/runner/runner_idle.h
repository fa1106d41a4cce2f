/* SPDX-License-Identifier: MIT */
/* Jobs whose GPUs are idle (--idle-warn): the journal's `idle` lines, and the hook for each job that becomes idle. */
#ifndef QUEUE_RUNNER_RUNNER_IDLE_H
#define QUEUE_RUNNER_RUNNER_IDLE_H

struct runner;
struct running;

/* Handles a new sample of the GPUs. */
void runner_idle_sample(struct runner *r, struct running *run);

#endif
