/* SPDX-License-Identifier: MIT */
/* A message to a keeper from any process: a signal that carries the job's id. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "base/pidref.h"
#include "queue/keeper/keeper.h"

int keeper_signal_cancel(const struct journal *j, const char *keeper, uint64_t id, bool at_once)
{
	char name[64];
	pid_t holder, again;
	/* The name comes from a journal, and must not lead out of the directory. */
	if (strchr(keeper, '/') || strlen(keeper) > 40)
		return -EINVAL;
	snprintf(name, sizeof(name), "keepers/%s", keeper);
	int r = lock_holder_at(j->dir_fd, name, &holder);
	if (r < 0 || holder == 0)
		return r < 0 ? r : -ESRCH;
	if (holder < 0)
		return -EXDEV;
	cleanup_(pidref_close) struct pidref process = PIDREF_NONE;
	r = pidref_open(holder, &process);
	if (r < 0)
		return r;
	/* Still the holder: so the descriptor is that of the keeper, not of a later process with the same PID. */
	r = lock_holder_at(j->dir_fd, name, &again);
	if (r < 0 || again != holder)
		return r < 0 ? r : -ESRCH;
	return pidref_queue(&process, at_once ? SIGUSR2 : SIGUSR1, (union sigval){.sival_int = (int)(uint32_t)id});
}
