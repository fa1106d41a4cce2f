/* SPDX-License-Identifier: MIT */
#include "base/helper.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int helper_directory(char *ret, size_t size)
{
	Dl_info info;
	struct link_map *map = NULL;
	char path[PATH_MAX];
	static const char here;
	if (!dladdr1(&here, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
		return -ENOENT;
	const char *name = map->l_name[0] ? map->l_name : "/proc/self/exe";
	if (!realpath(name, path))
		return -errno;
	*strrchr(path, '/') = '\0';
	int n = snprintf(ret, size, "%s", path);
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

int helper_find(const char *name, const char *variable, char *ret, size_t size)
{
	const char *named = getenv(variable);
	char directory[PATH_MAX];
	int n = -1;
	if (named && *named) {
		n = snprintf(ret, size, "%s", named);
		return n >= 0 && (size_t)n < size && access(ret, X_OK) == 0 ? 0 : -ENOENT;
	}
	if (helper_directory(directory, sizeof(directory)) == 0)
		n = snprintf(ret, size, "%s/%s", directory, name);
	if (n >= 0 && (size_t)n < size && access(ret, X_OK) == 0)
		return 0;
	n = snprintf(ret, size, "%s/%s", GD_LIBEXECDIR, name);
	return n >= 0 && (size_t)n < size && access(ret, X_OK) == 0 ? 0 : -ENOENT;
}
