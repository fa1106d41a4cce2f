/* SPDX-License-Identifier: MIT */
/* Reads the journal and updates the runner's own state; appends the runner's lines. */
#ifndef QUEUE_RUNNER_RUNNER_FOLLOW_H
#define QUEUE_RUNNER_RUNNER_FOLLOW_H

#include <stdbool.h>

struct job;
struct runner;

/* For jobs.on_change: context is the runner. */
void runner_on_change(void *runner, struct job *job, int old_state);
/* Reads all new lines. */
int runner_read(struct runner *r);
/* Reads under the append lock, and gets the current fence; raise_fence: raises it first. */
int runner_resync(struct runner *r, bool raise_fence);
/* Appends r->following.to_append. */
void runner_append(struct runner *r);

#endif
