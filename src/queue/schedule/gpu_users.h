/* SPDX-License-Identifier: MIT */
/* Finds the owners of the processes that a driver reports on the GPUs. */
#ifndef QUEUE_SCHEDULE_GPU_USERS_H
#define QUEUE_SCHEDULE_GPU_USERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/machine.h"
#include "gpu_dispatch.h"

/* A job: all descendants of its keeper, including those that left its session. */
struct gpu_user {
	pid_t root;       /* 0: not known here */
	int64_t pids[64]; /* filled in: the PIDs of its processes on a GPU */
	size_t num_pids;
};

/*
 * Assigns each process on a GPU to its nearest ancestor among the roots, if any. Users with the same root get the same
 * PIDs. Call it once for all users: each process is read once per call. If out of memory, no PIDs are found.
 */
void gpu_users_find(const struct gd_gpu_list *gpus, struct gpu_user *const *users, size_t count);

/* Whether the driver's PIDs are from another PID namespace: we are in a container. */
bool gpu_users_foreign_pids(const struct machine *here);

#endif
