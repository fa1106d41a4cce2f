/* SPDX-License-Identifier: MIT */
#include "cli/frozen_readers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/trust.h"
#include "cli/git.h"

/* Changes *fd to the directory above. 1; 0 if it was the root; or a negative errno value. */
static int go_up(int *fd, struct stat *st)
{
	struct stat above;
	int next = openat(*fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (next < 0)
		return -errno;
	close(*fd);
	*fd = next;
	if (fstat(next, &above) < 0)
		return -errno;
	bool is_root = above.st_dev == st->st_dev && above.st_ino == st->st_ino;
	*st = above;
	return !is_root;
}

/*
 * The group of the directories that exclude others: all readers are in it. *ret_inside: the objects are below the
 * working tree, so whoever reads them can enter the tree.
 */
static int find_group(int objects_fd, const struct stat *top, gid_t *ret_group, bool *ret_inside)
{
	struct stat st;
	bool is_public = false;
	cleanup_(closep) int fd = openat(objects_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = fd < 0 || fstat(fd, &st) < 0 ? -errno : 1;
	while (r > 0) {
		*ret_inside = *ret_inside || (st.st_dev == top->st_dev && st.st_ino == top->st_ino);
		if (!(st.st_mode & S_IXOTH)) {
			bool is_other = *ret_group != TRUST_NO_GROUP && *ret_group != st.st_gid;
			is_public = is_public || is_other || trust_has_access_list(fd);
			*ret_group = st.st_gid;
		}
		r = go_up(&fd, &st);
	}
	if (is_public)
		*ret_group = TRUST_NO_GROUP;
	return r;
}

/* Whether the readers have a permission, S_IROTH or S_IXOTH. */
static bool may(const struct frozen_readers *r, int dir_fd, const char *name, const struct stat *st, mode_t wanted)
{
	cleanup_(closep) int at = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (at < 0)
		return false;
	if (r->group == TRUST_NO_GROUP || st->st_gid != r->group)
		return trust_everybody_has(at, st, wanted);
	/* With an access list, the mode does not show what the group may do. */
	return st->st_mode & wanted << 3 && !trust_has_access_list(at);
}

/* Whether the readers can enter the working tree and all directories above it. */
static bool may_enter(const struct frozen_readers *r)
{
	struct stat st;
	cleanup_(closep) int fd = openat(r->top_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int e = fd < 0 || fstat(fd, &st) < 0 ? -errno : 1;
	while (e > 0 && may(r, fd, ".", &st, S_IXOTH))
		e = go_up(&fd, &st);
	return e == 0;
}

/* Whether the permissions of the file, or those of a directory above it in the tree, keep the readers out. */
static bool is_closed(const struct frozen_readers *r, const char *path)
{
	struct stat st;
	char above[PATH_MAX];
	if (fstatat(r->top_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return false;
	bool closed = !may(r, r->top_fd, path, &st, S_IROTH);
	for (const char *slash = strchr(path, '/'); slash && !closed; slash = strchr(slash + 1, '/')) {
		snprintf(above, sizeof(above), "%.*s", (int)(slash - path), path);
		closed = fstatat(r->top_fd, above, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			 !may(r, r->top_fd, above, &st, S_IXOTH);
	}
	return closed;
}

int frozen_readers_find(const char *top, struct frozen_readers *ret, struct gd_error *err)
{
	static const char *const words[] = {"rev-parse", "--path-format=absolute", "--git-path", "objects", NULL};
	struct stat st;
	bool inside = false;
	int r = git_run(top, NULL, words, &ret->objects, err);
	if (r < 0)
		return r;
	git_cut_newline(&ret->objects);
	cleanup_(closep) int fd = open(text_string(&ret->objects), O_PATH | O_DIRECTORY | O_CLOEXEC);
	ret->top_fd = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || ret->top_fd < 0 || fstat(ret->top_fd, &st) < 0)
		return error_set(err, -errno, "cannot open '%s': %s", fd < 0 ? text_string(&ret->objects) : top,
			error_words(errno));
	if (!trust_is_open_to_others(fd))
		return 0;
	r = find_group(fd, &st, &ret->group, &inside);
	if (r < 0)
		return error_set(err, r, "cannot examine the directories above '%s': %s", text_string(&ret->objects),
			error_words(r));
	ret->hidden = !inside && !may_enter(ret);
	return 1;
}

int frozen_readers_check(const struct frozen_readers *r, const char *top, const struct text *files, const char *remedy,
	struct gd_error *err)
{
	for (const char *p = text_string(files), *end = p + files->length; p < end; p += strlen(p) + 1)
		if (r->hidden || is_closed(r, p))
			return error_set(err, -EPERM,
				"'%s/%s' is private, but --freeze would store it in the repository, which others can read; %s, run chmod go-rwx on '%s', or use --trust if you accept that",
				top, p, remedy, text_string(&r->objects));
	return 0;
}

void frozen_readers_finish(struct frozen_readers *r)
{
	closep(&r->top_fd);
	text_finish(&r->objects);
}
