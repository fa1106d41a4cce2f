/* SPDX-License-Identifier: MIT */
/* The runner's final messages about jobs that it leaves behind. */
#ifndef QUEUE_RUNNER_RUNNER_LEFT_H
#define QUEUE_RUNNER_RUNNER_LEFT_H

struct runner;

/* How many jobs are left pending, and the first few that can never start, with the reason. */
void runner_say_left_pending(struct runner *r);
/* Prints nothing if no job is held. */
void runner_say_held(struct runner *r);

#endif
