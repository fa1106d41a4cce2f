/* SPDX-License-Identifier: MIT */
/*
 * The input folder. One walk along the given path opens and checks it, and its real path is then read from the
 * descriptor: in a second walk, other users could present another link or folder.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "launch/find.h"

static int open_folder(const char *path, struct trust_way *way, int *ret_fd)
{
	cleanup_(closep) int fd = -1;
	struct stat st;
	int r = *path ? trust_open_any(AT_FDCWD, path, &fd, way) : -ENOENT;
	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	*ret_fd = take_fd(&fd);
	return 0;
}

int find_open_folder(const char *path, int *ret_fd)
{
	cleanup_(closep) int fd = -1;
	struct trust_way way = {.replaceable = true}; /* not examined */
	int r = open_folder(path, &way, &fd);
	if (r < 0)
		return r;
	if (way.chooser)
		return -EPERM;
	*ret_fd = take_fd(&fd);
	return 0;
}

int find_open_root(const char *path, struct trust_way *way, int *ret_fd, char ret_path[PATH_MAX])
{
	cleanup_(closep) int fd = -1;
	int r = open_folder(path, way, &fd);
	if (r == 0)
		r = file_path(fd, ret_path);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

/* Whether users other than the owners of the entries can create entries in the directory. */
static bool is_shared_sticky(int fd)
{
	struct stat st;
	return fstat(fd, &st) < 0 || (st.st_mode & S_ISVTX && st.st_mode & (S_IWGRP | S_IWOTH));
}

const char *find_names_of_others(const char *path)
{
	char name[NAME_MAX + 1];
	size_t length;
	cleanup_(closep) int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	/* Other users cannot rename the components before the returned one, so these still lead to the same folder. */
	for (const char *p = path + 1; *p; p += length + (p[length] == '/')) {
		length = strcspn(p, "/");
		if (length >= sizeof(name) || fd < 0 || trust_objection_above(fd))
			return p;
		memcpy(name, p, length);
		name[length] = '\0';
		cleanup_(closep) int next = openat(fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0 || (is_shared_sticky(fd) && trust_objection(next)))
			return p;
		close_fd(&fd);
		fd = take_fd(&next);
	}
	return NULL;
}
