/* SPDX-License-Identifier: MIT */
/* Paths with symbolic links, opened component by component: trust_open_directory(), _parent() and _any(). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/trust.h"
#include "base/trust_private.h"

/* Limits for the components of a path and of all links in it together, and for those behind the first link of another
 * user, who can make any number of links with thousands of components. */
#define WALK_MAX_STEPS         2048
#define WALK_MAX_FOREIGN_STEPS 32
#define WALK_USUAL_STEPS       12 /* the others count in trust_way.long_steps */

#define WALK_FLAGS (O_PATH | O_NOFOLLOW | O_CLOEXEC)

struct walk {
	bool check_above; /* each directory on the way must be trusted */
	bool links_stay;  /* no other user may have been able to move a link that is followed */
	bool any_file;    /* the last component need not be a directory */
	int fd;           /* the component that was opened last */
	bool in_sticky;   /* it is a sticky directory */
	char *text;       /* the components; each link adds its own */
	char *rest;       /* those that follow, in the text */
	int links, steps, foreign_steps;
	struct trust_way *way; /* if links of other users are followed; otherwise NULL */
	const char *objection; /* to the component that was taken last */
	char name[NAME_MAX + 2];
};

static void walk_finish(struct walk *w)
{
	closep(&w->fd);
	free(w->text);
}

static bool walk_has_chooser(const struct walk *w)
{
	return w->way && w->way->chooser;
}

/* Notes who can use a component behind a link of another user. */
static void walk_note_access(struct walk *w, int fd, const struct stat *st)
{
	if (walk_has_chooser(w) && !w->way->restricted)
		w->way->restricted = !trust_everybody_has(fd, st, S_ISDIR(st->st_mode) ? S_IXOTH : S_IROTH);
}

/* The same for the directory that the walk has reached. */
static int walk_note_here(struct walk *w)
{
	struct stat st;
	if (!walk_has_chooser(w))
		return 0;
	if (fstat(w->fd, &st) < 0)
		return -errno;
	walk_note_access(w, w->fd, &st);
	return 0;
}

/* Notes whether another user can replace the component, or the entry of this directory that is next. */
static void walk_note_writers(struct walk *w, int fd, const struct stat *st, bool has_more)
{
	struct trust_way *way = w->way;
	if (way && !way->replaceable && has_more)
		way->replaceable = trust_objection_above_cached(fd, st, &way->private_group) != NULL;
	/* Another user may have renamed a file of this user to a free name in a sticky directory. A directory is
	 * examined by the caller. */
	if (way && w->in_sticky && !S_ISDIR(st->st_mode))
		way->replaceable = true;
	w->in_sticky = S_ISDIR(st->st_mode) && st->st_mode & S_ISVTX && st->st_mode & (S_IWGRP | S_IWOTH);
}

static int walk_to_root(struct walk *w)
{
	struct stat st;
	close_fd(&w->fd);
	w->fd = open("/", WALK_FLAGS);
	if (w->fd < 0 || fstat(w->fd, &st) < 0)
		return -errno;
	walk_note_writers(w, w->fd, &st, true);
	w->objection = w->check_above ? trust_objection_above(w->fd) : NULL;
	return w->objection ? -EPERM : 0;
}

/* Takes the next component; false: there is none. */
static bool walk_take_name(struct walk *w)
{
	char *begin = w->rest + strspn(w->rest, "/");
	while (begin[0] == '.' && begin[1] == '/') /* stays where it is */
		begin += 1 + strspn(begin + 1, "/");
	size_t length = strcspn(begin, "/");
	/* If the name is too long, keeps one byte too many, so that the kernel refuses it. */
	size_t kept = length > NAME_MAX ? NAME_MAX + 1 : length;
	memcpy(w->name, begin, kept);
	w->name[kept] = '\0';
	w->rest = begin + length;
	return length > 0;
}

/* Whether the walk continues after the component that was just taken. */
static bool walk_has_more(const struct walk *w)
{
	return w->rest[strspn(w->rest, "/")] != '\0';
}

/* Links such as /proc/self and /proc/self/cwd: for the program that will use the path, they lead elsewhere. */
static bool is_in_proc(int fd)
{
	struct statfs fs;
	return fstatfs(fd, &fs) < 0 || fs.f_type == PROC_SUPER_MAGIC;
}

/* Notes which other user chooses the target of the link; -EPERM if links of other users are not followed. */
static int walk_note_owner(struct walk *w, int link_fd, const struct stat *st)
{
	if (!trust_is_ours(st)) {
		w->objection = w->way ? NULL : "is a symbolic link of another user";
		if (w->objection)
			return -EPERM;
		uid_t *chooser = &w->way->chooser;
		bool unmapped = trust_is_unmapped(st->st_uid);
		bool several = unmapped || (*chooser && *chooser != st->st_uid);
		w->way->unmapped = w->way->unmapped || unmapped;
		*chooser = several ? TRUST_SEVERAL_USERS : st->st_uid;
		w->way->replaceable = true;
	}
	if (walk_has_chooser(w) && is_in_proc(link_fd)) {
		w->way->chooser = TRUST_SEVERAL_USERS;
		w->way->restricted = true;
	}
	return 0;
}

/* The target of a descriptor in /proc that is a pipe has no path: /proc/1/fd/1, or a link to /dev/stdout. */
static int walk_jump(struct walk *w)
{
	int fd = openat(w->fd, w->name, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	close_fd(&w->fd);
	w->fd = fd;
	return 0;
}

static int walk_follow(struct walk *w, int link_fd, const struct stat *st)
{
	char target[PATH_MAX], *longer;
	int r = walk_note_owner(w, link_fd, st);
	if (r < 0)
		return r;
	/* Another user may have renamed this link of the user, too. */
	if (w->way && w->in_sticky)
		w->way->replaceable = true;
	bool is_movable = w->check_above ? w->in_sticky : w->links_stay && trust_check_place(w->fd, NULL) < 0;
	w->objection = is_movable ? "is a symbolic link that another user may have moved there" : NULL;
	if (w->objection)
		return -EPERM;
	ssize_t n = readlinkat(link_fd, "", target, sizeof(target));
	if (n < 0 || (size_t)n >= sizeof(target))
		return n < 0 ? -errno : -ENAMETOOLONG;
	if (++w->links > TRUST_MAX_LINKS)
		return -ELOOP;
	target[n] = '\0';
	if (w->any_file && target[0] != '/' && !walk_has_more(w) && is_in_proc(link_fd))
		return walk_jump(w);
	if (asprintf(&longer, "%s/%s", target, w->rest) < 0)
		return -ENOMEM;
	free(w->text);
	w->text = w->rest = longer;
	r = target[0] == '/' ? walk_to_root(w) : 0;
	return r < 0 ? r : walk_note_here(w);
}

/* An automounted directory is mounted only if it is opened as a directory. */
static int open_entry(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, WALK_FLAGS | O_DIRECTORY);
	return fd < 0 && (errno == ENOTDIR || errno == ELOOP) ? openat(dir_fd, name, WALK_FLAGS) : fd;
}

/* Counts a component behind a link of another user; false: there are too many. */
static bool walk_count_foreign(struct walk *w)
{
	struct trust_way *way = w->way;
	w->foreign_steps++;
	if (w->foreign_steps <= WALK_USUAL_STEPS || way->most_long_steps == 0)
		return w->foreign_steps <= WALK_MAX_FOREIGN_STEPS;
	if (w->foreign_steps > WALK_MAX_FOREIGN_STEPS || way->long_steps >= way->most_long_steps)
		return false;
	way->long_steps++;
	return true;
}

/* Opens the entry whose name was taken, and sets the objection if it must not be used. */
static int walk_step(struct walk *w)
{
	struct stat st;
	if (++w->steps > WALK_MAX_STEPS || (walk_has_chooser(w) && !walk_count_foreign(w)))
		return -ELOOP;
	cleanup_(closep) int fd = open_entry(w->fd, w->name);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		return walk_follow(w, fd, &st);
	if (!S_ISDIR(st.st_mode) && (!w->any_file || walk_has_more(w)))
		return -ENOTDIR;
	w->objection = w->check_above && walk_has_more(w) ? trust_objection_above(fd) : NULL;
	if (w->objection)
		return -EPERM;
	walk_note_access(w, fd, &st);
	walk_note_writers(w, fd, &st, walk_has_more(w));
	close_fd(&w->fd);
	w->fd = take_fd(&fd);
	return 0;
}

/* Sets the message with the component. */
static int walk_refuse(const struct walk *w, int code, struct gd_error *err)
{
	char above[PATH_MAX];
	(void)file_path(w->fd, above);
	const char *slash = strcmp(above, "/") == 0 ? "" : "/";
	if (w->objection)
		return error_set(err, code, "'%s%s%s' %s", above, slash, w->name, w->objection);
	return error_set(err, code, "'%s%s%s': %s", above, slash, w->name, error_words(code));
}

/* Begins at the root or at dir_fd, with the whole path to walk. Directories above dir_fd are not checked. */
static int walk_init(struct walk *w, int dir_fd, const char *path)
{
	cleanup_(freep) char *here = path[0] == '/' || dir_fd != AT_FDCWD ? strdup("") : getcwd(NULL, 0);
	bool at_root = path[0] == '/' || dir_fd == AT_FDCWD;
	w->fd = -1;
	w->text = NULL;
	if (!here)
		return -errno;
	if (asprintf(&w->text, "%s%s%s", here, at_root ? "/" : "", path) < 0) {
		w->text = NULL;
		return -ENOMEM;
	}
	w->rest = w->text;
	if (at_root)
		return walk_to_root(w);
	w->fd = openat(dir_fd, ".", WALK_FLAGS | O_DIRECTORY);
	return w->fd < 0 ? -errno : 0;
}

/* err is set for all codes. */
static int walk_begin(struct walk *w, int dir_fd, const char *path, struct gd_error *err)
{
	int r = walk_init(w, dir_fd, path);
	if (r < 0 && w->objection)
		return error_set(err, r, "'/' %s", w->objection);
	return r < 0 ? error_set(err, r, "'%s': %s", path, error_words(r)) : 0;
}

/* To the end of the path. */
static int walk_all(struct walk *w, int dir_fd, const char *path, int *ret_fd, struct gd_error *err)
{
	int r = walk_begin(w, dir_fd, path, err);
	if (r < 0)
		return r;
	while (r == 0 && walk_take_name(w))
		r = walk_step(w);
	if (r < 0)
		return walk_refuse(w, r, err);
	*ret_fd = take_fd(&w->fd);
	return 0;
}

int trust_open_directory(const char *path, bool check_above, int *ret_fd, struct gd_error *err)
{
	return trust_open_directory_at(AT_FDCWD, path, check_above, ret_fd, err);
}

int trust_open_directory_at(int dir_fd, const char *path, bool check_above, int *ret_fd, struct gd_error *err)
{
	cleanup_(walk_finish) struct walk w = {.check_above = check_above};
	return walk_all(&w, dir_fd, path, ret_fd, err);
}

int trust_open_any(int dir_fd, const char *path, int *ret_fd, struct trust_way *way)
{
	cleanup_(walk_finish) struct walk w = {.way = way, .any_file = true};
	way->chooser = 0;
	way->unmapped = way->restricted = false;
	return walk_all(&w, dir_fd, path, ret_fd, NULL);
}

static bool is_link(int dir_fd, const char *name)
{
	struct stat st;
	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
}

/* To the directory of the last component. */
static int walk_to_parent(struct walk *w, const char *path, int *ret_fd, char **ret_name, struct gd_error *err)
{
	int r = walk_begin(w, AT_FDCWD, path, err);
	if (r < 0)
		return r;
	while (r == 0) {
		if (!walk_take_name(w))
			return error_set(err, -EISDIR, "'%s': %s", path, error_words(-EISDIR));
		if (!walk_has_more(w) && !is_link(w->fd, w->name))
			break;
		r = walk_step(w);
	}
	if (r < 0)
		return walk_refuse(w, r, err);
	char *copy = strdup(w->name);
	if (!copy)
		return error_set(err, -ENOMEM, "'%s': out of memory", path);
	*ret_name = copy;
	*ret_fd = take_fd(&w->fd);
	return 0;
}

int trust_open_parent(const char *path, bool check_above, int *ret_fd, char **ret_name, struct gd_error *err)
{
	cleanup_(walk_finish) struct walk w = {.check_above = check_above};
	return walk_to_parent(&w, path, ret_fd, ret_name, err);
}

int trust_open_parent_stable(const char *path, int *ret_fd, char **ret_name, struct gd_error *err)
{
	cleanup_(walk_finish) struct walk w = {.links_stay = true};
	return walk_to_parent(&w, path, ret_fd, ret_name, err);
}
