/* SPDX-License-Identifier: MIT */
/*
 * The parts of `gpuq launch --slurm` in gpuq-slurm, as command lines:
 *
 *     gpuq-slurm launch-prepare DIR     empties the queue; SLURM_LAUNCH_BUSY: workers of an earlier launch may be alive
 *     gpuq-slurm launch-proxy DIR       a worker of the launcher's pool (slurm/file_proxy.h)
 *     gpuq-slurm launch-worker DIR N    a job of the queue (slurm/file_worker.h)
 */
#ifndef CLI_SLURM_LAUNCH_H
#define CLI_SLURM_LAUNCH_H

#define SLURM_LAUNCH_PREPARE "launch-prepare"
#define SLURM_LAUNCH_PROXY   "launch-proxy"
#define SLURM_LAUNCH_WORKER  "launch-worker"
#define SLURM_LAUNCH_BUSY    3 /* exit code */

/* Returns the exit code. */
int slurm_launch_main(int argc, char **argv);

#endif
