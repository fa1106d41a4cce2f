/* SPDX-License-Identifier: MIT */
#include "slurm/node_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/trust.h"

/* More than enough: the journal's folder has one level of subfolders. */
#define MAX_DEPTH 8

static int open_parent(const char *path, int *ret_fd, struct gd_error *err)
{
	cleanup_(closep) int fd = -1;
	if (trust_is_off()) {
		fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			return error_set(err, -errno, "%s", error_words(errno));
	} else {
		int r = trust_open_directory(path, true, &fd, err);
		if (r == 0)
			r = trust_check_way(fd, err);
		if (r < 0)
			return r;
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

static int make_in(const char *where, struct node_folder *ret, struct gd_error *err)
{
	cleanup_(closep) int parent_fd = -1;
	char real[PATH_MAX];
	uint64_t number;
	int r = open_parent(where, &parent_fd, err);
	if (r < 0)
		return r;
	r = file_path(parent_fd, real);
	if (r < 0)
		return error_set(err, r, "%s", error_words(r));
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return error_set(err, -errno, "%s", error_words(errno));
	int at = snprintf(ret->path, sizeof(ret->path), "%s/", strcmp(real, "/") == 0 ? "" : real);
	int size = snprintf(
		ret->path + at, sizeof(ret->path) - (size_t)at, "gpuq-pilot-%016llx", (unsigned long long)number);
	/* Leave space for the names in the folder. */
	if (at + size > PATH_MAX - 64)
		return error_set(err, -ENAMETOOLONG, "%s", error_words(ENAMETOOLONG));
	ret->name = ret->path + at;
	if (mkdirat(parent_fd, ret->name, 0700) < 0)
		return error_set(err, -errno, "%s", error_words(errno));
	int fd = openat(parent_fd, ret->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		r = error_set(err, -errno, "%s", error_words(errno));
		(void)unlinkat(parent_fd, ret->name, AT_REMOVEDIR);
		return r;
	}
	ret->fd = fd;
	ret->parent_fd = take_fd(&parent_fd);
	return 0;
}

int node_folder_make(struct node_folder *ret, struct gd_error *err)
{
	const char *tmp = getenv("TMPDIR");
	struct gd_error why = {0}, second = {0};
	if (!tmp || *tmp != '/')
		tmp = "/tmp";
	int r = make_in(tmp, ret, &why);
	if (r == -EPERM && make_in("/tmp", ret, &second) == 0)
		return 0;
	if (r < 0)
		return error_set(err, r,
			"cannot create a directory for the pilot's own journal in '%s': %s; set TMPDIR", tmp,
			why.message);
	return 0;
}

static void remove_content(int dir_fd, int depth)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_(closedirp) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		closep(&fd);
		return;
	}
	for (const struct dirent *entry; (entry = readdir(dir));) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (unlinkat(dir_fd, entry->d_name, 0) == 0 || errno != EISDIR || depth == MAX_DEPTH)
			continue;
		cleanup_(closep) int sub_fd =
			openat(dir_fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (sub_fd < 0)
			continue;
		remove_content(sub_fd, depth + 1);
		(void)unlinkat(dir_fd, entry->d_name, AT_REMOVEDIR);
	}
}

void node_folder_clear(int dir_fd)
{
	remove_content(dir_fd, 0);
}

void node_folder_remove(struct node_folder *f)
{
	struct stat mine, there;
	if (f->fd < 0)
		return;
	remove_content(f->fd, 0);
	/* The name may now refer to another user's folder. */
	if (fstat(f->fd, &mine) == 0 && fstatat(f->parent_fd, f->name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
		mine.st_dev == there.st_dev && mine.st_ino == there.st_ino)
		(void)unlinkat(f->parent_fd, f->name, AT_REMOVEDIR);
	closep(&f->fd);
	closep(&f->parent_fd);
}
