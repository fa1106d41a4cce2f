/* SPDX-License-Identifier: MIT */
#include "cli/queue_place.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/state_dir.h"

#define NAME "jobs.jsonl"

bool queue_place_is_here(void)
{
	struct stat st;
	return lstat(QUEUE_PLACE_HERE, &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

enum owner { OWNER_NONE, OWNER_USER, OWNER_OTHER };

/* A link belongs to the user who created it. Whether others can write the file is checked when it is opened. */
static enum owner look_at(const char *path)
{
	struct stat st;
	if (lstat(path, &st) < 0)
		return OWNER_NONE;
	if (st.st_uid != geteuid())
		return OWNER_OTHER;
	if (S_ISLNK(st.st_mode) && stat(path, &st) < 0)
		return OWNER_NONE;
	if (!S_ISREG(st.st_mode))
		return OWNER_NONE;
	return st.st_uid == geteuid() ? OWNER_USER : OWNER_OTHER;
}

/* Changes `dir` to its parent; false if that is not below `home`. */
static bool go_up(char *dir, const char *home)
{
	size_t length = strcmp(home, "/") == 0 ? 0 : strlen(home);
	char *slash = strrchr(dir, '/');
	if (!slash || slash == dir)
		return false;
	*slash = '\0';
	return strncmp(dir, home, length) == 0 && dir[length] == '/' && dir[length + 1];
}

int queue_place_find_above(char **ret, char **ret_skipped)
{
	const char *variable = getenv("HOME");
	cleanup_(freep) char *home = variable && *variable == '/' ? realpath(variable, NULL) : NULL;
	cleanup_(freep) char *dir = getcwd(NULL, 0);
	cleanup_(freep) char *skipped = NULL;
	*ret = *ret_skipped = NULL;
	while (home && dir && go_up(dir, home)) {
		cleanup_(freep) char *path = NULL;
		if (asprintf(&path, "%s/" NAME, dir) < 0) {
			path = NULL;
			return -ENOMEM;
		}
		enum owner owner = look_at(path);
		if (owner == OWNER_USER) {
			*ret = take_ptr(path);
			break;
		}
		if (owner == OWNER_OTHER && !skipped)
			skipped = take_ptr(path);
	}
	*ret_skipped = take_ptr(skipped);
	return 0;
}

int queue_place_personal(bool make, char **ret, struct gd_error *err)
{
	char dir[PATH_MAX], *path;
	int fd = -1, r = state_dir_host_path(dir);
	if (r == -ENOENT)
		return error_set(
			err, -EINVAL, "cannot find the personal queue: HOME is not set; name a queue with --jobs-file");
	if (r == 0 && make)
		r = state_dir_open_host(true, &fd);
	closep(&fd);
	if (r < 0)
		return error_set(err, r,
			"cannot create directory '%s' for the personal queue: %s; name another queue with --jobs-file",
			dir,
			r == -EPERM
				? "it, or one of its parent directories, belongs to another user or can be written by others"
				: error_words(r));
	if (asprintf(&path, "%s/" NAME, dir) < 0)
		return error_set(err, -ENOMEM, "cannot find the personal queue: out of memory");
	*ret = path;
	return 0;
}
