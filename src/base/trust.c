/* SPDX-License-Identifier: MIT */
#include "base/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdatomic.h>
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
#include "base/trust_private.h"

#define ACCESS_LIST "system.posix_acl_access"

bool trust_is_off(void)
{
	const char *value = secure_getenv("GPUQ_TRUST");
	return value && *value && strcmp(value, "0") != 0;
}

/*
 * Accounts that have the group as their primary one are not listed as its members. Only local accounts are looked at:
 * listing those of a directory service can take minutes.
 */
static bool is_primary_group_of_others(gid_t gid)
{
	cleanup_(fclosep) FILE *f = fopen("/etc/passwd", "re");
	char room[4096];
	struct passwd pw, *user;
	int r;
	if (!f)
		return errno != ENOENT;
	while ((r = fgetpwent_r(f, &pw, room, sizeof(room), &user)) == 0)
		if (user->pw_gid == gid && user->pw_uid != geteuid() && user->pw_uid != 0)
			return true;
	return r != ENOENT;
}

static bool is_private_group(gid_t gid)
{
	char user_room[4096], group_room[4096];
	struct passwd pw, *user;
	struct group gr, *group;
	if (getpwuid_r(geteuid(), &pw, user_room, sizeof(user_room), &user) || !user || user->pw_gid != gid)
		return false;
	if (getgrgid_r(gid, &gr, group_room, sizeof(group_room), &group) || !group)
		return false;
	if (strcmp(group->gr_name, user->pw_name) != 0)
		return false;
	for (char **member = group->gr_mem; *member; member++)
		if (strcmp(*member, user->pw_name) != 0)
			return false;
	return !is_primary_group_of_others(gid);
}

/*
 * If there is an access list, the group bits are its mask and do not show who may write. Attributes cannot be read
 * through an O_PATH descriptor, but through its name in /proc.
 */
bool trust_has_access_list(int fd)
{
	char name[32];
	ssize_t size = fgetxattr(fd, ACCESS_LIST, NULL, 0);
	if (size < 0 && errno == EBADF) {
		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		size = getxattr(name, ACCESS_LIST, NULL, 0);
	}
	return size > 0 || (size < 0 && errno != ENODATA && errno != ENOTSUP);
}

/* ---- User namespaces ---------------------------------------------------------------- */

/* The overflow user id: all users without an id in this namespace. */
static uid_t overflow_id(void)
{
	static atomic_ulong known; /* the id + 1, which never changes; 0: not read yet */
	unsigned long id = atomic_load(&known);
	if (id == 0) {
		cleanup_(fclosep) FILE *f = fopen("/proc/sys/kernel/overflowuid", "re");
		if (!f || fscanf(f, "%lu", &id) != 1)
			id = 65534;
		atomic_store(&known, ++id);
	}
	return (uid_t)(id - 1);
}

/* Whether some users have no id here: the first user namespace maps all of them in one line. A map can be empty. */
static bool is_in_user_namespace(void)
{
	cleanup_(fclosep) FILE *f = fopen("/proc/self/uid_map", "re");
	unsigned long inside, outside, count;
	return f && (fscanf(f, "%lu %lu %lu", &inside, &outside, &count) != 3 || count < UINT32_MAX);
}

bool trust_is_unmapped(uid_t uid)
{
	return uid == overflow_id() && is_in_user_namespace();
}

bool trust_is_user(uid_t uid)
{
	return uid == geteuid() && !trust_is_unmapped(uid);
}

/* ---- One file ----------------------------------------------------------------------- */

bool trust_is_ours(const struct stat *st)
{
	return st->st_uid == 0 || trust_is_user(st->st_uid);
}

static const char by_another_user[] = "belongs to another user", by_its_group[] = "can be written by its group",
		  by_anybody[] = "may belong to another user (you have no user id in this namespace)";

bool trust_is_private_group(gid_t gid, gid_t *cache)
{
	if (gid != *cache && is_private_group(gid))
		*cache = gid;
	return gid == *cache;
}

/* The users who can write a file of this user or root. */
static const char *find_writers(int fd, const struct stat *st, gid_t *private_group)
{
	if (st->st_mode & S_IWOTH)
		return "can be written by everybody";
	if ((st->st_mode & S_IWGRP) && trust_has_access_list(fd))
		return "can be written by others (it has an access list)";
	if ((st->st_mode & S_IWGRP) && !trust_is_private_group(st->st_gid, private_group))
		return by_its_group;
	return NULL;
}

const char *trust_objection_cached(int fd, const struct stat *st, gid_t *private_group)
{
	if (!trust_is_ours(st))
		return st->st_uid == geteuid() ? by_anybody : by_another_user;
	return find_writers(fd, st, private_group);
}

const char *trust_objection_at(int dir_fd, const char *name, const struct stat *st, gid_t *private_group)
{
	struct stat opened;
	if (S_ISLNK(st->st_mode))
		return trust_is_ours(st) ? NULL : "is a symbolic link of another user";
	if (trust_is_ours(st) && !(st->st_mode & (S_IWGRP | S_IWOTH)))
		return NULL;
	cleanup_(closep) int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &opened) < 0)
		return errno == ENOENT ? NULL : "cannot be examined";
	return trust_objection_cached(fd, &opened, private_group);
}

/* trust_has_access_list() without opening the file. */
static bool entry_has_access_list(int dir_fd, const char *name)
{
	char path[NAME_MAX + 32];
	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir_fd, name);
	ssize_t size = lgetxattr(path, ACCESS_LIST, NULL, 0);
	return size > 0 || (size < 0 && errno != ENODATA && errno != ENOTSUP);
}

bool trust_is_shared(int fd, const char *name, const struct stat *st, struct trust_way *way)
{
	if (st->st_nlink != 1 || (st->st_mode & S_IWOTH))
		return true;
	if (!(st->st_mode & S_IWGRP))
		return false;
	if (st->st_gid == way->shared_group)
		return true;
	if (trust_is_private_group(st->st_gid, &way->private_group))
		return way->replaceable && (name ? entry_has_access_list(fd, name) : trust_has_access_list(fd));
	way->shared_group = st->st_gid;
	return true;
}

static const char *find_objection(int fd, const struct stat *st)
{
	gid_t none = TRUST_NO_GROUP;
	return trust_objection_cached(fd, st, &none);
}

const char *trust_objection(int fd)
{
	struct stat st;
	return fstat(fd, &st) < 0 ? "cannot be examined" : find_objection(fd, &st);
}

enum place {
	PLACE_ABOVE,     /* a directory above the file's own */
	PLACE_DIRECTORY, /* the file's own directory */
	PLACE_FILE,
};

/* In a sticky directory only the owner of an entry, who is checked next, can rename or remove it. */
const char *trust_objection_above_cached(int fd, const struct stat *st, gid_t *private_group)
{
	if (!trust_is_ours(st) && !trust_is_unmapped(st->st_uid))
		return by_another_user;
	return st->st_mode & S_ISVTX ? NULL : find_writers(fd, st, private_group);
}

static const char *check_place(int fd, enum place place)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return "cannot be examined";
	if (S_ISLNK(st.st_mode))
		return "is a symbolic link";
	if (place == PLACE_FILE && !S_ISREG(st.st_mode))
		return "is not a regular file";
	gid_t none = TRUST_NO_GROUP;
	return place == PLACE_ABOVE ? trust_objection_above_cached(fd, &st, &none) : find_objection(fd, &st);
}

const char *trust_objection_above(int fd)
{
	return check_place(fd, PLACE_ABOVE);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Sets the message, with the directory and the group or owner. */
static int refuse_directory(int fd, const char *objection, struct gd_error *err)
{
	char path[PATH_MAX], room[4096];
	struct stat st;
	struct group gr, *group = NULL;
	struct passwd pw, *user = NULL;
	(void)file_path(fd, path);
	bool known = fstat(fd, &st) == 0;
	if (known && objection == by_its_group && getgrgid_r(st.st_gid, &gr, room, sizeof(room), &group) == 0 && group)
		return error_set(err, -EPERM, "directory '%s' can be written by group '%s'", path, group->gr_name);
	if (known && objection == by_another_user && getpwuid_r(st.st_uid, &pw, room, sizeof(room), &user) == 0 && user)
		return error_set(err, -EPERM, "directory '%s' belongs to user '%s'", path, user->pw_name);
	return error_set(err, -EPERM, "directory '%s' %s", path, objection);
}

int trust_check_way(int fd, struct gd_error *err)
{
	cleanup_(closep) int at = openat(fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat here, above;
	bool ok = at >= 0 && fstat(at, &here) == 0;
	while (ok) {
		const char *objection = trust_objection_above(at);
		if (objection)
			return refuse_directory(at, objection, err);
		int up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		close_fd(&at);
		at = up;
		ok = at >= 0 && fstat(at, &above) == 0;
		if (ok && same_file(&here, &above)) /* the root */
			return 0;
		here = above;
	}
	return error_set(err, -EPERM, "a parent directory cannot be examined: %s", error_words(-errno));
}

int trust_check_place(int fd, struct gd_error *err)
{
	const char *objection = check_place(fd, PLACE_DIRECTORY);
	return objection ? refuse_directory(fd, objection, err) : trust_check_way(fd, err);
}

/* The kind of the component that ends at `end`, in a path whose last component is `last`. */
static enum place place_of(const char *end, enum place last)
{
	if (*end == '\0' || last == PLACE_DIRECTORY)
		return *end == '\0' ? last : PLACE_ABOVE;
	return strchr(end + 1, '/') ? PLACE_ABOVE : PLACE_DIRECTORY;
}

/* The path that the link at `path` leads to. */
static int read_link(const char *path, char **ret)
{
	char target[PATH_MAX];
	ssize_t n = readlink(path, target, sizeof(target));
	if (n < 0 || (size_t)n >= sizeof(target))
		return n < 0 ? -errno : -ENAMETOOLONG;
	target[n] = '\0';
	const char *slash = target[0] == '/' ? NULL : strrchr(path, '/');
	if (asprintf(ret, "%.*s%s", slash ? (int)(slash + 1 - path) : 0, path, target) < 0)
		return -ENOMEM;
	return 0;
}

int trust_follow_links(const char *path, char **ret, bool *ret_foreign)
{
	cleanup_(freep) char *at = strdup(path);
	bool foreign = false;
	for (int links = 0; at; links++) {
		struct stat st;
		char *next;
		bool missing = lstat(at, &st) < 0;
		if (missing && errno != ENOENT)
			return -errno;
		if (missing || !S_ISLNK(st.st_mode)) {
			*ret = take_ptr(at);
			*ret_foreign = foreign;
			return 0;
		}
		if (links == TRUST_MAX_LINKS)
			return -ELOOP;
		foreign = foreign || !trust_is_ours(&st);
		int r = read_link(at, &next);
		if (r < 0)
			return r;
		free(at);
		at = next;
	}
	return -ENOMEM;
}

static int check_path(const char *path, enum place last, struct gd_error *err)
{
	const int flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
	char name[NAME_MAX + 1];
	if (path[0] != '/')
		return error_set(err, -EINVAL, "'%s' is not an absolute path", path);
	const char *end = path; /* of the component that is open */
	cleanup_(closep) int fd = open("/", flags);
	for (;;) {
		int size = end == path ? 1 : (int)(end - path);
		if (fd < 0)
			return error_set(err, -errno, "'%.*s': %s", size, path, error_words(-errno));
		const char *objection = check_place(fd, place_of(end, last));
		if (objection)
			return error_set(err, -EPERM, "'%.*s' %s", size, path, objection);
		if (!*end)
			return 0;
		size_t length = strcspn(end + 1, "/");
		if (length == 0 || length >= sizeof(name))
			return error_set(err, -EINVAL, "'%s' is not the path of a file or directory", path);
		memcpy(name, end + 1, length);
		name[length] = '\0';
		int above = fd;
		fd = openat(above, name, flags);
		int code = fd < 0 ? errno : 0;
		close(above);
		errno = code;
		end += 1 + length;
	}
}

int trust_check_path(const char *path, struct gd_error *err)
{
	return check_path(path, PLACE_FILE, err);
}

int trust_check_directory(const char *path, struct gd_error *err)
{
	return check_path(path, PLACE_DIRECTORY, err);
}
