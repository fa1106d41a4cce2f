/* SPDX-License-Identifier: MIT */
#include "queue/schedule/process_owner.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/display.h"
#include "base/file.h"

const char *process_owner_user(uid_t user, char *buf, size_t size)
{
	char room[4096];
	struct passwd pw, *found = NULL;
	if (getpwuid_r(user, &pw, room, sizeof(room), &found) == 0 && found)
		snprintf(buf, size, "%s", found->pw_name);
	else
		snprintf(buf, size, "user %u", (unsigned)user);
	return buf;
}

bool process_owner_describe(void *context, int64_t pid, char *buf, size_t size)
{
	(void)context;
	char path[32], name[64], quote[DISPLAY_QUOTE_ROOM], user[256];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%" PRId64, pid);
	/* Owner and name come from one descriptor, so that they belong to the same process. */
	cleanup_(closep) int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (pid <= 0 || dir < 0 || fstat(dir, &st) < 0 || file_read_small(dir, "comm", name, sizeof(name)) < 0)
		return false;
	/* A process chooses its own name, with any bytes. */
	display_quote(name, quote);
	snprintf(buf, size, "%s, %s", process_owner_user(st.st_uid, user, sizeof(user)), quote);
	return true;
}
