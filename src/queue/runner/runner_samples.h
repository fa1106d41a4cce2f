/* SPDX-License-Identifier: MIT */
/* Records how full and busy the GPUs are: every few seconds while jobs run, and once after the last job has ended. */
#ifndef QUEUE_RUNNER_RUNNER_SAMPLES_H
#define QUEUE_RUNNER_RUNNER_SAMPLES_H

struct runner;

int runner_samples_open(struct runner *r);
/* Called in each round: sets the timer for the next sample while jobs run. */
void runner_samples_plan(struct runner *r);

#endif
