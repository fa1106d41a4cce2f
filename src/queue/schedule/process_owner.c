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

bool process_owner_describe(void *context, int64_t pid, char *buf, size_t size)
{
	(void)context;
	char path[32], name[64], quote[DISPLAY_QUOTE_ROOM], room[4096];
	struct stat st;
	struct passwd pw, *user = NULL;
	snprintf(path, sizeof(path), "/proc/%" PRId64, pid);
	/* Both from one descriptor, so that they belong to the same process. */
	cleanup_(closep) int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (pid <= 0 || dir < 0 || fstat(dir, &st) < 0 || file_read_small(dir, "comm", name, sizeof(name)) < 0)
		return false;
	/* A process names itself, with any bytes. */
	display_quote(name, quote);
	if (getpwuid_r(st.st_uid, &pw, room, sizeof(room), &user) == 0 && user)
		snprintf(buf, size, "%s, %s", user->pw_name, quote);
	else
		snprintf(buf, size, "user %u, %s", (unsigned)st.st_uid, quote);
	return true;
}
