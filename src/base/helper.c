/* SPDX-License-Identifier: MIT */
#include "base/helper.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/install_dirs.h"
#include "base/trust.h"

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

static int join(const char *directory, const char *name, char *ret, size_t size)
{
	int n = snprintf(ret, size, "%s/%s", directory, name);
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

static int find_named(const char *variable, const char *value, char *ret, size_t size, struct gd_error *err)
{
	if (value[0] != '/')
		return error_set(err, -EINVAL, "$%s '%s' is not an absolute path", variable, value);
	int n = snprintf(ret, size, "%s", value);
	int r = n < 0 || (size_t)n >= size ? -ENAMETOOLONG : access(ret, X_OK) < 0 ? -errno : 0;
	return r < 0 ? error_set(err, r, "$%s '%s' cannot be executed: %s", variable, value, error_words(r)) : 0;
}

int helper_find(const char *name, const char *variable, char *ret, size_t size, struct gd_error *err)
{
	const char *named = secure_getenv(variable);
	char directory[PATH_MAX], beside[PATH_MAX];
	struct gd_error refusal = {0};
	if (named && *named)
		return find_named(variable, named, ret, size, err);
	int r = helper_directory(directory, sizeof(directory));
	bool located = r == 0;
	if (r == 0)
		r = join(directory, name, beside, sizeof(beside));
	if (r == 0 && access(beside, X_OK) == 0) {
		r = trust_is_off() ? 0 : trust_check_path(beside, &refusal);
		if (r == 0 && strlen(beside) < size) {
			strcpy(ret, beside);
			return 0;
		}
	}
	if (join(GD_LIBEXECDIR, name, ret, size) == 0 && access(ret, X_OK) == 0)
		return 0;
	if (!refusal.code && located)
		return error_set(err, -ENOPKG, "'%s' is not installed, neither in '%s' nor in '%s'", name, directory,
			GD_LIBEXECDIR);
	if (!refusal.code)
		return error_set(err, -ENOPKG, "'%s' is not installed in '%s'", name, GD_LIBEXECDIR);
	return error_set(err, refusal.code,
		"refusing to execute '%s': %s; install gpu_dispatch, correct the permissions, set GPUQ_TRUST=1 if you trust these users, or set %s to the program you trust",
		beside, refusal.message, variable);
}
