/* SPDX-License-Identifier: MIT */
#include "queue/schedule/claim_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/trust.h"
#include "queue/schedule/claim_folders.h"

#define OPEN_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
/* Readers ignore it, because it is not the name of a folder of claims. */
#define FILLER ".gpuq"

/* ---- A directory that is named ------------------------------------------------- */

/* Lets all users write in a new directory of ours, regardless of the umask. */
static int share(int parent_fd, const char *name)
{
	struct stat st;
	cleanup_(closep) int fd = openat(parent_fd, name, OPEN_FLAGS);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid())
		return -EPERM;
	return fchmod(fd, 01777) < 0 ? -errno : 0;
}

static bool is_unsupported(int code)
{
	return code == -EINVAL || code == -ENOSYS || code == -ENOTSUP;
}

/*
 * Without flags, as on NFS, a rename replaces an empty directory, in which another process may be about to claim. So
 * each directory that is created in this way contains a file from the beginning.
 */
static int rename_filled(int parent_fd, const char *temporary, const char *name)
{
	cleanup_(closep) int dir_fd = openat(parent_fd, temporary, OPEN_FLAGS);
	if (dir_fd < 0)
		return -errno;
	cleanup_(closep) int fd = openat(dir_fd, FILLER, O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
	if (fd < 0)
		return -errno;
	if (renameat(parent_fd, temporary, parent_fd, name) == 0)
		return 0;
	int r = -errno;
	(void)unlinkat(dir_fd, FILLER, 0);
	return r == -ENOTEMPTY ? -EEXIST : r;
}

/* -EEXIST: another process has created it. */
static int rename_new(int parent_fd, const char *temporary, const char *name)
{
	if (renameat2(parent_fd, temporary, parent_fd, name, RENAME_NOREPLACE) == 0)
		return 0;
	int r = -errno;
	return is_unsupported(r) ? rename_filled(parent_fd, temporary, name) : r;
}

/*
 * Creates it under a temporary name and renames it once all users may write in it, so that no process finds it half
 * done. No other user can rename entries of ours in the parent.
 */
static int make_shared(int parent_fd, const char *name)
{
	char temporary[NAME_MAX + 32];
	snprintf(temporary, sizeof(temporary), "%.*s.%016" PRIx64, NAME_MAX, name, claim_random());
	if (mkdirat(parent_fd, temporary, 0700) < 0)
		return -errno;
	int r = share(parent_fd, temporary);
	if (r == 0)
		r = rename_new(parent_fd, temporary, name);
	if (r < 0)
		(void)unlinkat(parent_fd, temporary, AT_REMOVEDIR);
	return r == -EEXIST ? 0 : r;
}

static int cannot(const char *what, const char *path, int code, struct gd_error *err)
{
	return error_set(err, code, "cannot %s the directory of claims '%s': %s", what, path, error_words(code));
}

/* Opens the directory above, in which no other user can replace an entry of this user or root. */
static int open_parent(const char *path, size_t length, int *ret_fd, struct gd_error *err)
{
	struct gd_error why = {0};
	cleanup_(closep) int fd = -1;
	cleanup_(freep) char *above = length ? strndup(path, length) : strdup(".");
	int r = above ? trust_open_directory(above, true, &fd, &why) : -ENOMEM;
	if (r == 0)
		r = trust_check_way(fd, &why);
	if (r == -EPERM)
		return error_set(err, r,
			"the directory of claims '%s' could be replaced by another user: %s; set GPUQ_CLAIMS_DIR to another directory, or run 'chmod +t' on the directory that others can write to",
			path, why.message);
	if (r < 0)
		return cannot("open", path, r, err);
	*ret_fd = take_fd(&fd);
	return 0;
}

/* `path` has no slash at its end, unless it is the root. */
static int open_checked(const char *path, bool make, int *ret_fd, struct gd_error *err)
{
	cleanup_(closep) int parent_fd = -1;
	const char *slash = strrchr(path, '/');
	const char *last = slash ? slash + 1 : path, *name = *last ? last : ".";
	int r = open_parent(path, (size_t)(last - path), &parent_fd, err);
	if (r < 0)
		return r;
	int fd = openat(parent_fd, name, OPEN_FLAGS);
	if (fd < 0 && errno == ENOENT && make) {
		r = make_shared(parent_fd, name);
		if (r < 0)
			return cannot("create", path, r, err);
		fd = openat(parent_fd, name, OPEN_FLAGS);
	}
	if (fd < 0)
		return cannot("open", path, -errno, err);
	*ret_fd = fd;
	return 0;
}

static int open_named(const char *given, bool make, int *ret_fd, struct gd_error *err)
{
	cleanup_(freep) char *path = strdup(given);
	if (!path)
		return error_set(err, -ENOMEM, "out of memory");
	/* With a trailing slash, a symbolic link would be followed. */
	for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
		path[n - 1] = '\0';
	int fd = trust_is_off() ? open(path, OPEN_FLAGS) : -1;
	if (fd < 0)
		return open_checked(path, make, ret_fd, err);
	*ret_fd = fd;
	return 0;
}

/* ---- The default directory ----------------------------------------------------- */

static bool is_made_by_root(const char *path)
{
	struct stat st;
	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == 0 && (st.st_mode & S_ISVTX);
}

static const char *find_usual(void)
{
	return is_made_by_root(CLAIM_DIRECTORY_SYSTEM) ? CLAIM_DIRECTORY_SYSTEM : CLAIM_DIRECTORY_DEFAULT;
}

/* /tmp itself may be a symbolic link created by the administrator. */
static int open_usual(const char *path, int *ret_fd, struct gd_error *err)
{
	int fd = open(path, OPEN_FLAGS & ~O_NOFOLLOW);
	if (fd < 0)
		return cannot("open", path, -errno, err);
	*ret_fd = fd;
	return 0;
}

/* ---- Both ---------------------------------------------------------------------- */

static int check(int fd, const char *path, bool check_owner, struct gd_error *err)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return cannot("open", path, -errno, err);
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX))
		return error_set(err, -EPERM,
			"the directory of claims '%s' lets everybody remove the claims of others; run 'chmod +t' on it",
			path);
	const char *objection = check_owner ? trust_objection_above(fd) : NULL;
	if (objection)
		return error_set(err, -EPERM,
			"the directory of claims '%s' %s, so other users could hide claims; set GPUQ_CLAIMS_DIR to a directory of your own or of root",
			path, objection);
	return 0;
}

int claim_directory_open(const char *dir, bool make, int *ret_fd, struct gd_error *err)
{
	const char *variable = getenv("GPUQ_CLAIMS_DIR");
	const char *named = dir ? dir : variable && *variable ? variable : NULL;
	const char *path = named ? named : find_usual();
	cleanup_(closep) int fd = -1;
	int r = named ? open_named(path, make, &fd, err) : open_usual(path, &fd, err);
	if (r == 0)
		r = check(fd, path, named && !trust_is_off(), err);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}
