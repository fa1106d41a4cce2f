/* SPDX-License-Identifier: MIT */
#include "base/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"

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
 * With an access list the group's bits are its mask and do not tell who may write. Attributes cannot be read through an
 * O_PATH descriptor, but through its name in /proc.
 */
static bool has_access_list(int fd)
{
	char name[32];
	ssize_t size = fgetxattr(fd, ACCESS_LIST, NULL, 0);
	if (size < 0 && errno == EBADF) {
		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		size = getxattr(name, ACCESS_LIST, NULL, 0);
	}
	return size > 0 || (size < 0 && errno != ENODATA && errno != ENOTSUP);
}

static bool is_ours(const struct stat *st)
{
	return st->st_uid == 0 || st->st_uid == geteuid();
}

static const char *find_objection(int fd, const struct stat *st)
{
	if (!is_ours(st))
		return "belongs to another user";
	if (st->st_mode & S_IWOTH)
		return "can be written by everybody";
	if ((st->st_mode & S_IWGRP) && has_access_list(fd))
		return "can be written by others (it has an access list)";
	if ((st->st_mode & S_IWGRP) && !is_private_group(st->st_gid))
		return "can be written by its group";
	return NULL;
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
static const char *check_place(int fd, enum place place)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return "cannot be examined";
	if (S_ISLNK(st.st_mode))
		return "is a symbolic link";
	if (place == PLACE_FILE && !S_ISREG(st.st_mode))
		return "is not a regular file";
	if (place == PLACE_ABOVE && is_ours(&st) && (st.st_mode & S_ISVTX))
		return NULL;
	return find_objection(fd, &st);
}

/* What the component that ends at `end` is, in a path whose last component is `last`. */
static enum place place_of(const char *end, enum place last)
{
	if (*end == '\0' || last == PLACE_DIRECTORY)
		return *end == '\0' ? last : PLACE_ABOVE;
	return strchr(end + 1, '/') ? PLACE_ABOVE : PLACE_DIRECTORY;
}

/* The kernel follows as many. */
#define MAX_LINKS 40

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
		if (links == MAX_LINKS)
			return -ELOOP;
		foreign = foreign || !is_ours(&st);
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
			return error_set(err, -EINVAL, "'%s' is not a path of a file or directory", path);
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

/* ---- A directory behind links ------------------------------------------------------ */

#define WALK_FLAGS (O_PATH | O_NOFOLLOW | O_CLOEXEC)

/* Where trust_open_directory() or trust_open_parent() is. */
struct walk {
	int fd;     /* the last directory that was reached */
	char *rest; /* components that follow; each link adds its own */
	int links;
};

static void walk_finish(struct walk *w)
{
	closep(&w->fd);
	free(w->rest);
}

static int walk_to_root(struct walk *w)
{
	close_fd(&w->fd);
	w->fd = open("/", WALK_FLAGS);
	return w->fd < 0 ? -errno : 0;
}

/* The next component; false: there is none. */
static bool walk_take_name(struct walk *w, char name[NAME_MAX + 2])
{
	char *begin = w->rest + strspn(w->rest, "/");
	size_t length = strcspn(begin, "/");
	/* Of a name that is too long one byte too many, so that the kernel refuses it. */
	size_t kept = length > NAME_MAX ? NAME_MAX + 1 : length;
	memcpy(name, begin, kept);
	name[kept] = '\0';
	memmove(w->rest, begin + length, strlen(begin + length) + 1);
	return length > 0;
}

static int walk_follow(struct walk *w, int link_fd)
{
	char target[PATH_MAX], *longer;
	ssize_t n = readlinkat(link_fd, "", target, sizeof(target));
	if (n < 0 || (size_t)n >= sizeof(target))
		return n < 0 ? -errno : -ENAMETOOLONG;
	if (++w->links > MAX_LINKS)
		return -ELOOP;
	target[n] = '\0';
	if (asprintf(&longer, "%s/%s", target, w->rest) < 0)
		return -ENOMEM;
	free(w->rest);
	w->rest = longer;
	return target[0] == '/' ? walk_to_root(w) : 0;
}

/* Whether the walk goes on behind the component that was just taken. */
static bool walk_has_more(const struct walk *w)
{
	return w->rest[strspn(w->rest, "/")] != '\0';
}

/* An automounted directory is mounted only if it is opened as a directory. */
static int open_entry(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, WALK_FLAGS | O_DIRECTORY);
	return fd < 0 && (errno == ENOTDIR || errno == ELOOP) ? openat(dir_fd, name, WALK_FLAGS) : fd;
}

/* Goes to the entry `name`, and sets *ret_objection if it must not be used. */
static int walk_step(struct walk *w, const char *name, bool check_above, const char **ret_objection)
{
	struct stat st;
	cleanup_(closep) int fd = open_entry(w->fd, name);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode)) {
		*ret_objection = is_ours(&st) ? NULL : "is a symbolic link of another user";
		return *ret_objection ? -EPERM : walk_follow(w, fd);
	}
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	*ret_objection = check_above && walk_has_more(w) ? check_place(fd, PLACE_ABOVE) : NULL;
	if (*ret_objection)
		return -EPERM;
	close_fd(&w->fd);
	w->fd = take_fd(&fd);
	return 0;
}

/* Says which component it was. */
static int walk_refuse(const struct walk *w, const char *name, int code, const char *objection, struct gd_error *err)
{
	char proc[32], above[PATH_MAX];
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", w->fd);
	ssize_t n = readlink(proc, above, sizeof(above) - 1);
	above[n > 0 ? n : 0] = '\0';
	const char *slash = n > 0 && above[n - 1] == '/' ? "" : "/";
	if (objection)
		return error_set(err, code, "'%s%s%s' %s", above, slash, name, objection);
	return error_set(err, code, "'%s%s%s': %s", above, slash, name, error_words(code));
}

/* At the root, with all of the path before it. */
static int walk_init(struct walk *w, const char *path)
{
	cleanup_(freep) char *here = path[0] == '/' ? strdup("") : getcwd(NULL, 0);
	*w = (struct walk){.fd = -1};
	if (!here)
		return -errno;
	if (asprintf(&w->rest, "%s/%s", here, path) < 0) {
		w->rest = NULL;
		return -ENOMEM;
	}
	return walk_to_root(w);
}

int trust_open_directory(const char *path, bool check_above, int *ret_fd, struct gd_error *err)
{
	cleanup_(walk_finish) struct walk w;
	char name[NAME_MAX + 2] = "";
	const char *objection = NULL;
	int r = walk_init(&w, path);
	if (r < 0)
		return error_set(err, r, "'%s': %s", path, error_words(r));
	if (check_above && (objection = check_place(w.fd, PLACE_ABOVE)))
		return error_set(err, -EPERM, "'/' %s", objection);
	while (r == 0 && walk_take_name(&w, name))
		r = walk_step(&w, name, check_above, &objection);
	if (r < 0)
		return walk_refuse(&w, name, r, objection, err);
	*ret_fd = take_fd(&w.fd);
	return 0;
}

static bool is_link(int dir_fd, const char *name)
{
	struct stat st;
	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
}

int trust_open_parent(const char *path, int *ret_fd, char **ret_name, struct gd_error *err)
{
	cleanup_(walk_finish) struct walk w;
	char name[NAME_MAX + 2] = "";
	const char *objection = NULL;
	int r = walk_init(&w, path);
	if (r < 0)
		return error_set(err, r, "'%s': %s", path, error_words(r));
	while (r == 0) {
		if (!walk_take_name(&w, name))
			return error_set(err, -EISDIR, "'%s': %s", path, error_words(-EISDIR));
		if (!walk_has_more(&w) && !is_link(w.fd, name))
			break;
		r = walk_step(&w, name, false, &objection);
	}
	if (r < 0)
		return walk_refuse(&w, name, r, objection, err);
	char *copy = strdup(name);
	if (!copy)
		return error_set(err, -ENOMEM, "'%s': out of memory", path);
	*ret_name = copy;
	*ret_fd = take_fd(&w.fd);
	return 0;
}
