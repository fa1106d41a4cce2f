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

/*
 * The folder was perhaps unpacked from an archive or cloned: a link in its place could lead to any folder of this user.
 * Returns -ELOOP or -ENOTDIR for a link.
 */
static int open_folder(int dir_fd, const char *folder)
{
	int fd = openat(dir_fd, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Makes new files survive a power cut. Some file systems cannot sync a directory and fail with EINVAL. */
static int sync_folders(int dir_fd, int folder_fd)
{
	if ((fsync(folder_fd) < 0 && errno != EINVAL) || (fsync(dir_fd) < 0 && errno != EINVAL))
		return -errno;
	return 0;
}

static int write_new(int dir_fd, int folder_fd, const char *name, const void *data, size_t size)
{
	char draft[64];
	snprintf(draft, sizeof(draft), "draft.%d", (int)getpid());
	/* A file that came with a copy of the queue may be readable by others, or have a second name. */
	(void)unlinkat(folder_fd, draft, 0);
	cleanup_(closep) int fd = openat(folder_fd, draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	int r = file_write_all(fd, data, size);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(folder_fd, draft, folder_fd, name) < 0)
		r = -errno;
	if (r == 0)
		r = sync_folders(dir_fd, folder_fd);
	if (r < 0)
		unlinkat(folder_fd, draft, 0);
	return r;
}

void content_store_name(const void *data, size_t size, char ret_name[HASH_TEXT])
{
	hash_format(hash_bytes(data, size), ret_name);
}

/* -EEXIST: the file has different content. Equal hashes prove nothing: a user who chose both contents can cause a
 * collision. */
static int compare_content(int folder_fd, const char *name, const void *data, size_t size)
{
	const char *expected = data;
	char chunk[16384];
	struct stat st;
	cleanup_(closep) int fd = file_open_regular(folder_fd, name, O_NOFOLLOW);
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

int content_store_save(int dir_fd, const char *folder, const void *data, size_t size, char ret_name[HASH_TEXT])
{
	char name[HASH_TEXT];
	content_store_name(data, size, name);
	cleanup_(closep) int folder_fd = open_folder(dir_fd, folder);
	if (folder_fd == -ENOENT) {
		if (mkdirat(dir_fd, folder, 0700) < 0 && errno != EEXIST)
			return -errno;
		folder_fd = open_folder(dir_fd, folder);
	}
	if (folder_fd < 0)
		return folder_fd;
	/*
	 * An existing file gets the current time, so that no sweep removes it before our job is in the journal. A sweep
	 * that has just moved it aside may move it back: the content is the same.
	 */
	int r = utimensat(folder_fd, name, NULL, AT_SYMLINK_NOFOLLOW) < 0 ? -ENOENT : 0;
	if (r == 0)
		r = compare_content(folder_fd, name, data, size);
	/* A script that others can write to would be refused when a job starts. */
	struct stat st;
	if (r == 0 && fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid == geteuid() &&
		st.st_mode & 022 && fchmodat(folder_fd, name, 0600, AT_SYMLINK_NOFOLLOW) < 0)
		r = 0; /* best effort: some file systems cannot change modes */
	if (r == -ENOENT)
		r = write_new(dir_fd, folder_fd, name, data, size);
	if (r < 0)
		return r;
	memcpy(ret_name, name, HASH_TEXT);
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Also true if it is not a regular file: the store creates only regular files, so the sweep keeps all others. */
static bool is_young(int folder_fd, const char *name)
{
	struct stat st;
	if (fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return true;
	return st.st_mtim.tv_sec > time(NULL) - SWEEP_AGE_S;
}

/* Moves the file aside and checks its age again: it may just have been saved again. */
static void sweep_one(int folder_fd, const char *name)
{
	static const char aside[] = "swept";
	if (is_young(folder_fd, name) || renameat(folder_fd, name, folder_fd, aside) < 0)
		return;
	if (!is_young(folder_fd, aside) || renameat(folder_fd, aside, folder_fd, name) < 0)
		unlinkat(folder_fd, aside, 0);
}

void content_store_sweep(int dir_fd, const char *folder, const char *const *used, size_t count)
{
	int fd = open_folder(dir_fd, folder);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		closep(&fd);
		return;
	}
	for (struct dirent *e; (e = readdir(d));) {
		const char *name = e->d_name;
		if (name[0] != '.' && !(count && bsearch(&name, used, count, sizeof(*used), compare_names)))
			sweep_one(fd, name);
	}
	closedir(d);
}
