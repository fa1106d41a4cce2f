/* SPDX-License-Identifier: MIT */
/* Everything in a directory: trust_objection_to_new_files(), trust_check_tree() and trust_check_target(). */
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/trust.h"
#include "base/trust_private.h"

/* Limited, because each level keeps a directory open. */
#define TREE_MAX_DEPTH 100

#define TREE_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

/* A directory that a link leads to. */
struct tree_target {
	dev_t dev;
	ino_t ino;
};

struct tree {
	struct tree_target *targets; /* already checked; links can form cycles */
	size_t num_targets;
	gid_t private_group; /* cache, see trust_objection_cached() */
	int depth;
	struct gd_error *err;
};

static void tree_finish(struct tree *t)
{
	free(t->targets);
}

/* The path of an entry of the open directory, or of the directory if name is NULL. */
static void find_path(int dir_fd, const char *name, char *path, size_t size)
{
	char above[PATH_MAX];
	(void)file_path(dir_fd, above);
	snprintf(path, size, "%s%s%s", above, name ? "/" : "", name ? name : "");
}

static int refuse(const struct tree *t, int dir_fd, const char *name, const char *objection)
{
	char path[PATH_MAX + NAME_MAX + 2];
	find_path(dir_fd, name, path, sizeof(path));
	return error_set(t->err, -EPERM, "'%s' %s", path, objection);
}

static int give_up(const struct tree *t, int dir_fd, const char *name, int code)
{
	char path[PATH_MAX + NAME_MAX + 2];
	find_path(dir_fd, name, path, sizeof(path));
	return error_set(t->err, code, "'%s' cannot be examined: %s", path, error_words(code));
}

/* ---- Default access lists ---------------------------------------------------------------- */

/* The kernel's format: a version, then these entries, all of it in little endian. */
struct list_entry {
	uint16_t tag, permissions;
	uint32_t id;
};

#define LIST_HEADER 4
#define LIST_OWNER  0x01
#define LIST_MASK   0x10
#define LIST_OTHER  0x20
#define LIST_WRITE  0x02

/* Reads the list by the descriptor's name in /proc, because attributes cannot be read through O_PATH descriptors. */
static bool shares_new_files(int fd)
{
	char name[32];
	unsigned char list[LIST_HEADER + 64 * sizeof(struct list_entry)];
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	ssize_t size = getxattr(name, "system.posix_acl_default", list, sizeof(list));
	if (size < 0)
		return errno != ENODATA && errno != ENOTSUP;
	unsigned mask = LIST_WRITE, limited = 0, others = 0;
	for (size_t at = LIST_HEADER; at + sizeof(struct list_entry) <= (size_t)size; at += sizeof(struct list_entry)) {
		struct list_entry entry;
		memcpy(&entry, list + at, sizeof(entry));
		unsigned tag = le16toh(entry.tag), permissions = le16toh(entry.permissions);
		if (tag == LIST_MASK)
			mask = permissions;
		else if (tag == LIST_OTHER)
			others |= permissions;
		else if (tag != LIST_OWNER)
			limited |= permissions;
	}
	return ((limited & mask) | others) & LIST_WRITE;
}

const char *trust_objection_to_new_files(int fd)
{
	return shares_new_files(fd) ? "gives others write access to new files (default access list)" : NULL;
}

/* ---- The tree ----------------------------------------------------------------------------- */

static int check_entry(struct tree *t, int dir_fd, const char *name, bool follow);

/* Closes fd. */
static int check_directory(struct tree *t, int fd, const char *skip)
{
	struct stat st;
	cleanup_(closedirp) DIR *dir = fdopendir(fd);
	if (!dir || fstat(fd, &st) < 0) {
		int code = -errno;
		if (!dir)
			close(fd);
		return error_set(t->err, code, "cannot examine a directory: %s", error_words(code));
	}
	const char *objection = trust_objection_cached(fd, &st, &t->private_group);
	if (!objection)
		objection = trust_objection_to_new_files(fd);
	if (objection)
		return refuse(t, fd, NULL, objection);
	if (t->depth == TREE_MAX_DEPTH)
		return give_up(t, fd, NULL, -ELOOP);
	int r = 0;
	t->depth++;
	while (r == 0) {
		errno = 0;
		const struct dirent *e = readdir(dir);
		if (!e) {
			r = errno ? give_up(t, fd, NULL, -errno) : 0;
			break;
		}
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
			(!skip || strcmp(e->d_name, skip) != 0))
			r = check_entry(t, fd, e->d_name, true);
	}
	t->depth--;
	return r;
}

/* 1: the directory is new; 0: it was checked before, or is being checked. */
static int add_target(struct tree *t, const struct stat *st)
{
	for (size_t i = 0; i < t->num_targets; i++)
		if (t->targets[i].dev == st->st_dev && t->targets[i].ino == st->st_ino)
			return 0;
	struct tree_target *longer = reallocarray(t->targets, t->num_targets + 1, sizeof(*longer));
	if (!longer)
		return error_set(t->err, -ENOMEM, "out of memory");
	t->targets = longer;
	t->targets[t->num_targets++] = (struct tree_target){st->st_dev, st->st_ino};
	return 1;
}

/* Checks what the path leads to, through links of this user and root. */
static int check_target(struct tree *t, const char *path)
{
	cleanup_(closep) int parent = -1;
	cleanup_(freep) char *name = NULL;
	struct stat st;
	int r = trust_open_parent(path, true, &parent, &name, t->err);
	if (r < 0)
		return r;
	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != ENOENT)
			return give_up(t, parent, name, -errno);
		/* In a sticky directory, others can create the file. */
		const char *objection = trust_objection(parent);
		return objection ? refuse(t, parent, NULL, objection) : 0;
	}
	r = S_ISDIR(st.st_mode) ? add_target(t, &st) : 1;
	return r <= 0 ? r : check_entry(t, parent, name, false);
}

static int check_link(struct tree *t, int dir_fd, const char *name)
{
	char path[PATH_MAX + NAME_MAX + 2];
	find_path(dir_fd, name, path, sizeof(path));
	return check_target(t, path);
}

/* Entries can disappear: the user may run another program there. */
static int check_entry(struct tree *t, int dir_fd, const char *name, bool follow)
{
	struct stat st;
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : give_up(t, dir_fd, name, -errno);
	const char *objection = trust_objection_at(dir_fd, name, &st, &t->private_group);
	if (objection)
		return refuse(t, dir_fd, name, objection);
	if (S_ISLNK(st.st_mode))
		return follow ? check_link(t, dir_fd, name) : give_up(t, dir_fd, name, -ELOOP);
	if (!S_ISDIR(st.st_mode))
		return 0;
	int fd = openat(dir_fd, name, TREE_FLAGS);
	if (fd < 0)
		return errno == ENOENT ? 0 : give_up(t, dir_fd, name, -errno);
	return check_directory(t, fd, NULL);
}

int trust_check_target(const char *path, struct gd_error *err)
{
	cleanup_(tree_finish) struct tree t = {.private_group = TRUST_NO_GROUP, .err = err};
	return check_target(&t, path);
}

int trust_check_tree(int dir_fd, const char *skip, struct gd_error *err)
{
	cleanup_(tree_finish) struct tree t = {.private_group = TRUST_NO_GROUP, .err = err};
	int fd = openat(dir_fd, ".", TREE_FLAGS);
	return fd < 0 ? give_up(&t, dir_fd, NULL, -errno) : check_directory(&t, fd, skip);
}
