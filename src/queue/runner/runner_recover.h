/* SPDX-License-Identifier: MIT */
/*
 * Jobs whose keeper is not ours, or is gone.
 *
 * A job has lost its keeper when the keeper's lock is free. Its end ("keeper lost", "machine
 * restarted") is written under the append lock with all lines read, after the processes that it left
 * behind have been killed.
 */
#ifndef QUEUE_RUNNER_RUNNER_RECOVER_H
#define QUEUE_RUNNER_RUNNER_RECOVER_H

#include <stdbool.h>
#include <sys/types.h>

#include "gpu_dispatch.h"

struct job;
struct keeper_info;
struct runner;
struct running;

/* At the start: reads the journal, raises the fence, and finds the running jobs. */
int runner_take_over(struct runner *r, struct gd_error *err);
/* Adopts a running job that was started by an earlier runner or on another machine. */
void runner_adopt(struct runner *r, struct job *job);
/* Whether the keeper is on this machine, as far as known. */
bool runner_same_host(const struct runner *r, const struct keeper_info *k);
/* The position of a GPU number as in `start`; -1: not one of our GPUs. */
int runner_gpu_position(const struct runner *r, int index);
/* The PID that holds the keeper's lock; 0: none; -1: a process without a PID here, or unknown. */
pid_t runner_keeper_holder(const struct runner *r, const struct keeper_info *k);
/* Checks for each running job without a keeper of ours whether its keeper is alive. */
void runner_judge(struct runner *r);
/* A keeper of ours died while it had this job. `run` may be gone afterwards. */
void running_keeper_died(struct running *run);

#endif
