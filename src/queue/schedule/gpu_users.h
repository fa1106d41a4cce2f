/* SPDX-License-Identifier: MIT */
/* Whose the processes are that a driver sees on the GPUs. */
#ifndef QUEUE_SCHEDULE_GPU_USERS_H
#define QUEUE_SCHEDULE_GPU_USERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/machine.h"
#include "gpu_dispatch.h"

/* A job: all that descends from its keeper, also what left its session. */
struct gpu_user {
	pid_t root;       /* 0: not known here */
	int64_t pids[64]; /* filled in: those of its processes that are on a GPU */
	size_t num_pids;
};

/* Gives each process on a GPU to the nearest root above it, if there is one. */
void gpu_users_find(const struct gd_gpu_list *gpus, struct gpu_user *const *users, size_t count);

/* Whether the driver's PIDs are not those of this machine's processes as we see them: we are in a container. */
bool gpu_users_foreign_pids(const struct machine *here);

#endif
