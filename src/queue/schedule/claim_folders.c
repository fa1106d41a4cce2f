/* SPDX-License-Identifier: MIT */
#include "queue/schedule/claim_folders.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/date.h"
#include "base/file.h"
#include "base/units.h"

#define MAX_ENTRIES 65536
#define MAX_FOLDERS 1024
/* Users have one folder, or a second one if another user took the name of the first. */
#define MAX_FOLDERS_OF_USER 16
#define SETTLE_MS           100
/* Limit for the folder of another user. 1,024 claims need less than a third of this. */
#define MAX_FOLDER_BYTES (1 << 20)
#define OPEN_FLAGS       (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

uint64_t claim_random(void)
{
	uint64_t n;
	if (getrandom(&n, sizeof(n), GRND_NONBLOCK) != sizeof(n))
		n = (uint64_t)getpid() << 32 ^ (uintptr_t)&n;
	return n;
}

/* ---- All folders --------------------------------------------------------------- */

/* "gpuq-claims-1000" or "gpuq-claims-1000-0123456789abcdef", with the number as printf() writes it. */
static bool parse_name(const char *name, struct claim_folder *ret)
{
	const size_t prefix = sizeof(CLAIM_FOLDER_PREFIX) - 1;
	if (strncmp(name, CLAIM_FOLDER_PREFIX, prefix) != 0 || strlen(name) >= sizeof(ret->name))
		return false;
	const char *number = name + prefix;
	size_t digits = strspn(number, "0123456789");
	char text[16];
	int64_t uid;
	if (digits == 0 || digits > 10 || (number[0] == '0' && digits > 1))
		return false;
	memcpy(text, number, digits);
	text[digits] = '\0';
	if (units_parse_integer(text, 0, UINT32_MAX, &uid, NULL) < 0)
		return false;
	const char *rest = number + digits;
	if (*rest && (*rest != '-' || strspn(rest + 1, "0123456789abcdef") != 16 || rest[17]))
		return false;
	ret->owner = (uid_t)uid;
	memcpy(ret->name, name, strlen(name) + 1);
	return true;
}

static bool counts(const struct stat *st, uid_t owner)
{
	return S_ISDIR(st->st_mode) && st->st_uid == owner && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

static int compare_folders(const void *a, const void *b)
{
	const struct claim_folder *x = a, *y = b;
	return x->owner != y->owner ? (x->owner < y->owner ? -1 : 1) : strcmp(x->name, y->name);
}

static int add_folder(struct claim_folders *f, size_t *capacity, int dir_fd, const struct claim_folder *folder)
{
	struct stat st;
	if (fstatat(dir_fd, folder->name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !counts(&st, folder->owner))
		return 0;
	int r = array_reserve(f->folders, capacity, f->count + 1);
	if (r == 0)
		f->folders[f->count++] = *folder;
	return r;
}

/* The folders of users who have a process; other folders hold no live claim. */
static int add_by_process(struct claim_folders *f, size_t *capacity, int dir_fd)
{
	cleanup_(closedirp) DIR *proc = opendir("/proc");
	const struct dirent *entry;
	uid_t last = (uid_t)-1; /* neighbors often belong to the same user */
	int r = 0;
	while (r == 0 && proc && (entry = readdir(proc))) {
		struct stat st;
		struct claim_folder folder;
		if (!isdigit((unsigned char)entry->d_name[0]) || fstatat(dirfd(proc), entry->d_name, &st, 0) < 0 ||
			st.st_uid == last)
			continue;
		last = folder.owner = st.st_uid;
		snprintf(folder.name, sizeof(folder.name), CLAIM_FOLDER_PREFIX "%u", (unsigned)st.st_uid);
		r = add_folder(f, capacity, dir_fd, &folder);
	}
	return r;
}

/* Removes duplicates, and keeps the first MAX_FOLDERS_OF_USER of each user: reading claims opens all folders. */
static void keep_few(struct claim_folders *f)
{
	size_t kept = 0, of_user = 0;
	for (size_t i = 0; i < f->count; i++) {
		const struct claim_folder *last = kept > 0 ? &f->folders[kept - 1] : NULL;
		if (last && compare_folders(last, &f->folders[i]) == 0)
			continue;
		of_user = last && last->owner == f->folders[i].owner ? of_user + 1 : 1;
		if (of_user <= MAX_FOLDERS_OF_USER)
			f->folders[kept++] = f->folders[i];
	}
	f->count = kept;
}

/* 1: more entries than the limit. */
static int add_by_name(struct claim_folders *f, size_t *capacity, int dir_fd)
{
	int fd = openat(dir_fd, ".", OPEN_FLAGS);
	cleanup_(closedirp) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		int code = -errno;
		closep(&fd);
		return code;
	}
	for (size_t entries = 0, named = 0; entries < MAX_ENTRIES && named < MAX_FOLDERS; entries++) {
		struct claim_folder folder;
		errno = 0;
		const struct dirent *entry = readdir(dir);
		if (!entry)
			return -errno;
		if (!parse_name(entry->d_name, &folder))
			continue;
		named++;
		int r = add_folder(f, capacity, dir_fd, &folder);
		if (r < 0)
			return r;
	}
	return 1;
}

/* File timestamps have a resolution of some milliseconds: two changes in quick succession may have the same time. */
static bool is_older(const struct stat *st, int64_t ms)
{
	return date_now_ms() - file_mtime_ms(st) >= ms;
}

int claim_folders_update(int dir_fd, struct claim_folders *f)
{
	struct claim_folders fresh = {0};
	size_t capacity = 0;
	struct stat st;
	if (fstat(dir_fd, &st) < 0)
		return -errno;
	if (f->is_current && memcmp(&f->mtime, &st.st_mtim, sizeof(f->mtime)) == 0)
		return 0;
	fresh.mtime = st.st_mtim;
	fresh.is_current = is_older(&st, SETTLE_MS);
	int r = add_by_name(&fresh, &capacity, dir_fd);
	if (r > 0) {
		/* Users may start processes without a change of the directory. */
		fresh.is_current = false;
		r = add_by_process(&fresh, &capacity, dir_fd);
	}
	if (r < 0) {
		claim_folders_finish(&fresh);
		return r;
	}
	if (fresh.count > 1)
		qsort(fresh.folders, fresh.count, sizeof(*fresh.folders), compare_folders);
	keep_few(&fresh);
	claim_folders_finish(f);
	*f = fresh;
	return 0;
}

void claim_folders_finish(struct claim_folders *f)
{
	free(f->folders);
	*f = (struct claim_folders){0};
}

/* ---- One folder ---------------------------------------------------------------- */

int claim_folder_open(int dir_fd, const struct claim_folder *folder, int *ret_fd)
{
	struct stat st;
	cleanup_(closep) int fd = openat(dir_fd, folder->name, OPEN_FLAGS);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!counts(&st, folder->owner))
		return -EPERM;
	/* A directory does not shrink when its files are removed, and each reading scans it. */
	if (folder->owner != geteuid() && st.st_size > MAX_FOLDER_BYTES)
		return -EFBIG;
	*ret_fd = take_fd(&fd);
	return 0;
}

/*
 * Creates the folder, or uses our existing folder of this name. -EPERM: it belongs to another user, or others can write
 * it. In the latter case, they could have moved an unrelated directory of ours there, which would then become readable
 * by everybody and be cleaned.
 */
static int make_own(int dir_fd, const char *name, int *ret_fd)
{
	struct stat st;
	bool created = mkdirat(dir_fd, name, 0700) == 0;
	if (!created && errno != EEXIST)
		return -errno;
	cleanup_(closep) int fd = openat(dir_fd, name, OPEN_FLAGS);
	if (fd < 0)
		return errno == ENOENT ? -ENOENT : -EPERM;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid() || (!created && st.st_mode & (S_IWGRP | S_IWOTH)))
		return -EPERM;
	/* Regardless of the umask. */
	if ((st.st_mode & 07777) != 0755 && fchmod(fd, 0755) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

/*
 * Finds a folder that another process of this user has created because another user took the usual
 * name. Reads the whole directory, even if it is full, but only once per process: otherwise each
 * runner and keeper would create its own folder.
 */
static bool find_own(int dir_fd, int *ret_fd)
{
	int fd = openat(dir_fd, ".", OPEN_FLAGS);
	cleanup_(closedirp) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	if (!dir)
		closep(&fd);
	while (dir && (entry = readdir(dir))) {
		struct claim_folder folder;
		if (parse_name(entry->d_name, &folder) && folder.owner == geteuid() &&
			claim_folder_open(dir_fd, &folder, ret_fd) == 0)
			return true;
	}
	return false;
}

static int open_own_elsewhere(int dir_fd, int *ret_fd)
{
	char name[CLAIM_FOLDER_ROOM];
	if (find_own(dir_fd, ret_fd))
		return 0;
	snprintf(name, sizeof(name), CLAIM_FOLDER_PREFIX "%u-%016" PRIx64, (unsigned)geteuid(), claim_random());
	return make_own(dir_fd, name, ret_fd);
}

int claim_folder_open_own(int dir_fd, int *ret_fd)
{
	char name[CLAIM_FOLDER_ROOM];
	snprintf(name, sizeof(name), CLAIM_FOLDER_PREFIX "%u", (unsigned)geteuid());
	int r = -ENOENT;
	/* A /tmp cleaner may remove it between mkdir and open. */
	for (int tries = 0; tries < 3 && r == -ENOENT; tries++)
		r = make_own(dir_fd, name, ret_fd);
	return r == -EPERM ? open_own_elsewhere(dir_fd, ret_fd) : r;
}
