/* SPDX-License-Identifier: MIT */
/*
 * The queue of a launch on a cluster, in a directory of its own: its jobs are the workers of the launch.
 *
 * A launch begins with an empty queue. Before it empties the queue of an earlier launch, it makes sure that no
 * worker of that launch is alive: it cancels the jobs, and a coordinator records their ends, as for every cancelled
 * job.
 */
#ifndef SLURM_FILE_QUEUE_H
#define SLURM_FILE_QUEUE_H

#include "gpu_dispatch.h"

/*
 * Cancels all jobs of an earlier launch. If all have ended, empties the directory and makes a new secret. -EBUSY: some
 * have not ended, or a coordinator is alive; run a coordinator and try again. -EPERM: another user could have put
 * another directory there; nothing was removed.
 */
int file_queue_prepare(const char *dir, struct gd_error *err);

#endif
