/* SPDX-License-Identifier: MIT */
/*
 * Measures the energy of jobs that have their GPUs to themselves from start to end.
 *
 * A job is not measured if another job of any queue is placed on one of its GPUs, if the driver
 * reports a process there that is not the job's, or if this is unknown: the driver reports no
 * processes, or the runner did not see the job start.
 */
#ifndef QUEUE_RUNNER_RUNNER_ENERGY_H
#define QUEUE_RUNNER_RUNNER_ENERGY_H

struct runner;
struct running;

/* A job was given its GPUs: other jobs on these GPUs are no longer alone. */
void runner_energy_started(struct running *run);
/* Handles a new sample of the GPUs. */
void runner_energy_sample(struct runner *r, struct running *run);

#endif
