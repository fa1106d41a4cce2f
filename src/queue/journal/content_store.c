/* SPDX-License-Identifier: MIT */
#include "queue/journal/content_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

/* A younger file may belong to a job that is not in the journal yet. */
#define SWEEP_AGE_S 3600

/* Makes new files survive a power cut. Some file systems cannot sync a directory and fail with EINVAL. */
static int sync_folders(int dir_fd, const char *folder)
{
	cleanup_(closep) int fd = openat(dir_fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || (fsync(fd) < 0 && errno != EINVAL) || (fsync(dir_fd) < 0 && errno != EINVAL))
		return -errno;
	return 0;
}

static int write_new(int dir_fd, const char *folder, const char *path, const void *data, size_t size)
{
	char draft[64];
	snprintf(draft, sizeof(draft), "%s/draft.%d", folder, (int)getpid());
	cleanup_(closep) int fd = openat(dir_fd, draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	int r = file_write_all(fd, data, size);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(dir_fd, draft, dir_fd, path) < 0)
		r = -errno;
	if (r == 0)
		r = sync_folders(dir_fd, folder);
	if (r < 0)
		unlinkat(dir_fd, draft, 0);
	return r;
}

void content_store_name(const void *data, size_t size, char ret_name[HASH_TEXT])
{
	hash_format(hash_bytes(data, size), ret_name);
}

/* -EEXIST: the file has another content. Equal hashes prove nothing: a user who chose both contents can cause a
 * collision. */
static int compare_content(int dir_fd, const char *path, const void *data, size_t size)
{
	const char *expected = data;
	char chunk[16384];
	struct stat st;
	cleanup_(closep) int fd = file_open_regular(dir_fd, path, O_NOFOLLOW);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size != size)
		return -EEXIST;
	for (size_t at = 0; at < size;) {
		size_t part = size - at < sizeof(chunk) ? size - at : sizeof(chunk);
		ssize_t n = file_read_full(fd, chunk, part);
		if (n < 0)
			return (int)n;
		if ((size_t)n != part || memcmp(chunk, expected + at, part) != 0)
			return -EEXIST;
		at += part;
	}
	return 0;
}

static int make_new(int dir_fd, const char *folder, const char *path, const void *data, size_t size)
{
	if (mkdirat(dir_fd, folder, 0700) < 0 && errno != EEXIST)
		return -errno;
	return write_new(dir_fd, folder, path, data, size);
}

int content_store_save(int dir_fd, const char *folder, const void *data, size_t size, char ret_name[HASH_TEXT])
{
	char name[HASH_TEXT], path[HASH_TEXT + 32];
	content_store_name(data, size, name);
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	/*
	 * An existing file gets the current time, so that no sweep removes it before our job is in the journal. A sweep
	 * that has just moved it aside may move it back: the content is the same.
	 */
	int r = utimensat(dir_fd, path, NULL, AT_SYMLINK_NOFOLLOW) < 0 ? -ENOENT : 0;
	if (r == 0)
		r = compare_content(dir_fd, path, data, size);
	if (r == -ENOENT)
		r = make_new(dir_fd, folder, path, data, size);
	if (r < 0)
		return r;
	memcpy(ret_name, name, HASH_TEXT);
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_young(int dir_fd, const char *path)
{
	struct stat st;
	if (fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return true;
	return st.st_mtim.tv_sec > time(NULL) - SWEEP_AGE_S;
}

/* Moves the file aside and checks its age again: it may just have been saved again. */
static void sweep_one(int dir_fd, const char *folder, const char *name)
{
	char path[300], aside[64];
	snprintf(aside, sizeof(aside), "%s/swept", folder);
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (is_young(dir_fd, path) || renameat(dir_fd, path, dir_fd, aside) < 0)
		return;
	if (!is_young(dir_fd, aside) || renameat(dir_fd, aside, dir_fd, path) < 0)
		unlinkat(dir_fd, aside, 0);
}

void content_store_sweep(int dir_fd, const char *folder, const char *const *used, size_t count)
{
	int fd = openat(dir_fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		closep(&fd);
		return;
	}
	for (struct dirent *e; (e = readdir(d));) {
		const char *name = e->d_name;
		if (name[0] != '.' && !(count && bsearch(&name, used, count, sizeof(*used), compare_names)))
			sweep_one(dir_fd, folder, name);
	}
	closedir(d);
}
