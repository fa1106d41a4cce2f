/* SPDX-License-Identifier: MIT */
#include "cli/frozen_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/trust.h"

#define DIRECTORY_FLAGS (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

bool frozen_directory_is_same(int a, int b)
{
	struct stat x, y;
	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Takes the first component of the path; false: there is none. */
static bool take_name(const char **path, char name[NAME_MAX + 1])
{
	size_t length = strcspn(*path, "/");
	if (length == 0 || length > NAME_MAX)
		return false;
	memcpy(name, *path, length);
	name[length] = '\0';
	*path += length + ((*path)[length] == '/');
	return true;
}

/* Whether top/prefix is the current directory, and not reached through a link of another user. */
static int check_current(const struct frozen_directory *d, struct gd_error *err)
{
	char path[PATH_MAX];
	cleanup_(closep) int fd = -1;
	bool fits = snprintf(path, sizeof(path), "%s/%s", d->top, d->prefix) < (int)sizeof(path);
	if (fits && trust_open_directory(path, false, &fd, NULL) == 0 && frozen_directory_is_same(fd, d->cwd_fd))
		return 0;
	return error_set(err, -EPERM,
		"'%s/%s' is no longer the current directory: another user may have replaced it; check the directories in this path, and add the job again",
		d->top, d->prefix);
}

static int check_own(const struct frozen_directory *d, int fd, const char *path, struct gd_error *err)
{
	const char *objection = d->trust ? NULL : trust_objection(fd);
	if (!objection)
		return 0;
	return error_set(err, -EPERM,
		"'%s' in the frozen tree %s, so other users could change the files of the job; use a queue in another directory, or use --trust if you accept that",
		path, objection);
}

/*
 * Follows no link: git has created these directories, and nothing else is in the commit. In a linked directory, ".."
 * would lead to the current files instead of the frozen ones.
 */
static int open_copy(const struct frozen_directory *d, int tree_fd, int *ret_fd, struct gd_error *err)
{
	char name[NAME_MAX + 1];
	const char *rest = d->prefix;
	cleanup_(closep) int fd = openat(tree_fd, ".", DIRECTORY_FLAGS);
	int r = fd < 0 ? -errno : check_own(d, fd, d->tree, err);
	while (r == 0 && take_name(&rest, name)) {
		int next = openat(fd, name, DIRECTORY_FLAGS);
		close_fd(&fd);
		fd = next;
		if (fd < 0)
			return error_set(err, -EINVAL,
				"the current directory '%s/%s' is not part of the frozen tree, because git ignores it or has no file in it; add the job in a directory that is part of it, such as '%s'",
				d->top, d->prefix, d->top);
		r = check_own(d, fd, d->prefix, err);
	}
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

int frozen_directory_open(const struct frozen_directory *d, int *ret_fd, struct gd_error *err)
{
	cleanup_(closep) int tree_fd = -1;
	int r = trust_open_directory(d->tree, !d->trust, &tree_fd, err);
	if (r == 0)
		r = check_current(d, err);
	return r < 0 ? r : open_copy(d, tree_fd, ret_fd, err);
}
