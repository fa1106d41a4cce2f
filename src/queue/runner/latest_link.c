/* SPDX-License-Identifier: MIT */
#include "queue/runner/latest_link.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/trust.h"

/* Whether the name is free or belongs to a link to a log. Everything else with this name belongs to the user. */
static bool is_free_or_ours(int dir_fd, const char *name)
{
	static const char begin[] = "job_", end[] = ".log";
	char target[NAME_MAX + 1];
	ssize_t n = readlinkat(dir_fd, name, target, sizeof(target));
	if (n < 0)
		return errno == ENOENT;
	size_t length = (size_t)n;
	return length < sizeof(target) && length >= strlen(begin) + strlen(end) && !memchr(target, '/', length) &&
	       memcmp(target, begin, strlen(begin)) == 0 &&
	       memcmp(target + length - strlen(end), end, strlen(end)) == 0;
}

static void make_link(int dir_fd, const char *log)
{
	char draft[32];
	snprintf(draft, sizeof(draft), "latest.%d", (int)getpid());
	if (!is_free_or_ours(dir_fd, "latest") || !is_free_or_ours(dir_fd, draft))
		return;
	unlinkat(dir_fd, draft, 0);
	if (symlinkat(log, dir_fd, draft) == 0 && renameat(dir_fd, draft, dir_fd, "latest") < 0)
		unlinkat(dir_fd, draft, 0);
}

/* Another user may have replaced the directory with a link after the log was created. */
void latest_link_make(const char *log)
{
	char dir[PATH_MAX];
	const char *slash = strrchr(log, '/');
	cleanup_(closep) int dir_fd = -1;
	if (!slash ||
		snprintf(dir, sizeof(dir), "%.*s", slash == log ? 1 : (int)(slash - log), log) >= (int)sizeof(dir))
		return;
	if (trust_open_directory(dir, false, &dir_fd, NULL) == 0)
		make_link(dir_fd, slash + 1);
}
