/* SPDX-License-Identifier: MIT */
#include "base/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/trust.h"

/* Relative paths are ignored, as the XDG Base Directory Specification says. */
static int find_path(char path[PATH_MAX])
{
	const char *base = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	int n;
	if (base && *base == '/')
		n = snprintf(path, PATH_MAX, "%s/gpuq", base);
	else if (home && *home == '/')
		n = snprintf(path, PATH_MAX, "%s/.local/state/gpuq", home);
	else
		return -ENOENT;
	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int make_below_own(const char *path)
{
	char above[PATH_MAX];
	struct stat st;
	const char *slash = strrchr(path, '/');
	if (!slash || slash == path)
		return -ENOENT;
	snprintf(above, sizeof(above), "%.*s", (int)(slash - path), path);
	if (stat(above, &st) < 0) {
		int r = errno == ENOENT ? make_below_own(above) : -errno;
		if (r < 0)
			return r;
	} else if (st.st_uid != geteuid()) {
		return -EPERM;
	}
	return mkdir(path, 0700) == 0 || errno == EEXIST ? 0 : -errno;
}

static int open_path(const char *path, bool make, int *ret_fd)
{
	struct stat st;
	cleanup_(closep) int fd = -1;
	int r = trust_open_directory(path, true, &fd, NULL);
	if (r == -ENOENT && make) {
		r = make_below_own(path);
		if (r == 0)
			r = trust_open_directory(path, true, &fd, NULL);
	}
	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid() || trust_objection(fd))
		return -EPERM;
	*ret_fd = take_fd(&fd);
	return 0;
}

int state_dir_open(bool make, int *ret_fd)
{
	char path[PATH_MAX];
	int r = find_path(path);
	return r < 0 ? r : open_path(path, make, ret_fd);
}

int state_dir_host_path(char ret[PATH_MAX])
{
	char path[PATH_MAX], host[HOST_NAME_MAX + 1];
	int r = find_path(path);
	if (r < 0)
		return r;
	if (gethostname(host, sizeof(host)) < 0)
		return -errno;
	host[sizeof(host) - 1] = '\0';
	for (char *slash = host; (slash = strchr(slash, '/'));)
		*slash = '_';
	bool usable = *host && strcmp(host, ".") != 0 && strcmp(host, "..") != 0;
	int n = snprintf(ret, PATH_MAX, "%s/%s", path, usable ? host : "localhost");
	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

int state_dir_open_host(bool make, int *ret_fd)
{
	char path[PATH_MAX];
	int r = state_dir_host_path(path);
	return r < 0 ? r : open_path(path, make, ret_fd);
}

void state_dir_explain_host(struct gd_error *ret)
{
	char path[PATH_MAX];
	cleanup_(closep) int fd = -1;
	int r = state_dir_host_path(path);
	if (r == 0)
		r = trust_open_directory(path, true, &fd, ret);
	if (r == -EPERM)
		return;
	const char *objection = r == 0 ? trust_objection(fd) : NULL;
	error_set(ret, -EPERM, "%s %s", objection ? "it" : "it, or one of its parent directories,",
		objection ? objection : "belongs to another user");
}

/* Others may have created it while they could write HOST. */
int state_dir_open_part(const char *name, bool make, int *ret_fd)
{
	struct stat st;
	cleanup_(closep) int above = -1;
	int r = state_dir_open_host(make, &above);
	if (r < 0)
		return r;
	if (make && mkdirat(above, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	cleanup_(closep) int fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!trust_is_user(st.st_uid) || trust_objection(fd))
		return -EPERM;
	*ret_fd = take_fd(&fd);
	return 0;
}
