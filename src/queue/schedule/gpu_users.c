/* SPDX-License-Identifier: MIT */
#include "queue/schedule/gpu_users.h"

#include <string.h>

#include "base/process.h"

/* The initial PID namespace, in which the driver's PIDs are ours. */
#define FIRST_PIDNS "4026531836"

#define MOST_ANCESTORS 64

static struct gpu_user *owner_of(pid_t pid, struct gpu_user *const *users, size_t count)
{
	struct process_info info;
	for (int depth = 0; depth < MOST_ANCESTORS && pid > 1; depth++) {
		for (size_t i = 0; i < count; i++)
			if (users[i]->root == pid)
				return users[i];
		if (process_info(pid, &info) < 0)
			break;
		pid = info.ppid;
	}
	return NULL;
}

void gpu_users_find(const struct gd_gpu_list *gpus, struct gpu_user *const *users, size_t count)
{
	for (size_t i = 0; i < count; i++)
		users[i]->num_pids = 0;
	for (size_t g = 0; count > 0 && g < gpus->count; g++)
		for (size_t i = 0; i < gpus->gpus[g]->num_processes; i++) {
			int64_t pid = gpus->gpus[g]->processes[i]->pid;
			struct gpu_user *user = owner_of((pid_t)pid, users, count);
			if (user && user->num_pids < sizeof(user->pids) / sizeof(user->pids[0]))
				user->pids[user->num_pids++] = pid;
		}
}

bool gpu_users_foreign_pids(const struct machine *here)
{
	return strcmp(here->pidns, FIRST_PIDNS) != 0;
}
