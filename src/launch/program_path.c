/* SPDX-License-Identifier: MIT */
#include "launch/program_path.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int can_execute(const char *path)
{
	struct stat st;
	if (stat(path, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	return access(path, X_OK) < 0 ? -errno : 0;
}

int program_path_check(const char *name)
{
	if (strchr(name, '/'))
		return can_execute(name);
	const char *path = getenv("PATH");
	if (!path)
		path = "/bin:/usr/bin";
	int result = -ENOENT;
	for (const char *p = path;; p++) {
		size_t size = strcspn(p, ":");
		char candidate[PATH_MAX];
		int n = snprintf(candidate, sizeof(candidate), "%.*s/%s", size ? (int)size : 1, size ? p : ".", name);
		int r = n < 0 || (size_t)n >= sizeof(candidate) ? -ENAMETOOLONG : can_execute(candidate);
		if (r == 0)
			return 0;
		if (r == -EACCES)
			result = r;
		p += size;
		if (!*p)
			return result;
	}
}
