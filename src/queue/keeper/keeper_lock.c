/* SPDX-License-Identifier: MIT */
#include "queue/keeper/keeper_lock.h"

#include <stdio.h>
#include <string.h>

#include "base/lock.h"
#include "queue/journal/job.h"

bool keeper_lock_file(const struct keeper_info *k, char ret[KEEPER_FILE_ROOM])
{
	if (strchr(k->name, '/') || strlen(k->name) > 64)
		return false;
	snprintf(ret, KEEPER_FILE_ROOM, "keepers/%s", k->name);
	return true;
}

pid_t keeper_lock_holder(int dir_fd, const struct keeper_info *k)
{
	char file[KEEPER_FILE_ROOM];
	pid_t holder;
	if (!k || !keeper_lock_file(k, file))
		return 0;
	/* Unknown: it may be alive. */
	return lock_holder_at(dir_fd, file, &holder) < 0 ? -1 : holder;
}
