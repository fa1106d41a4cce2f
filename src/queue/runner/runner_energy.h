/* SPDX-License-Identifier: MIT */
/*
 * Who may be told how much energy it used: a job that has its GPUs for itself from its start to its end.
 *
 * It does not if another job of any queue is put on one of them, if the driver reports a process there that is not the
 * job's, or if it cannot be known: the driver reports no processes, or the runner did not see the job start.
 */
#ifndef QUEUE_RUNNER_RUNNER_ENERGY_H
#define QUEUE_RUNNER_RUNNER_ENERGY_H

struct runner;
struct running;

/* A job was given its GPUs: those that have one of them, too, are no longer alone. */
void runner_energy_started(struct running *run);
/* There is a new sample of the GPUs. */
void runner_energy_sample(struct runner *r, struct running *run);

#endif
