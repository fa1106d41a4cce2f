/* SPDX-License-Identifier: MIT */
#include "cli/git_quarantine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/trust.h"
#include "cli/git.h"

/* `git prune` removes folders of this name that were left behind. */
#define NAME "tmp_objdir-gpuq-XXXXXX"

/* Of folders that are removed. */
#define MAX_DEPTH 8

static int open_objects(struct git_quarantine *q, const char *top, struct gd_error *err)
{
	int r = git_run(top, NULL,
		(const char *const[]){"rev-parse", "--path-format=absolute", "--git-path", "objects", NULL},
		&q->objects, err);
	if (r < 0)
		return r;
	if (q->objects.length && q->objects.data[q->objects.length - 1] == '\n')
		q->objects.data[--q->objects.length] = '\0';
	return trust_open_directory(text_string(&q->objects), true, &q->objects_fd, err);
}

/* Lists a directory; dir_fd stays open. */
static DIR *open_list(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d)
		closep(&fd);
	return d;
}

static int open_folder(int dir_fd, const char *name)
{
	return openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool is_empty(int dir_fd)
{
	cleanup_(closedirp) DIR *d = open_list(dir_fd);
	int count = 0;
	while (d && readdir(d))
		count++;
	return count == 2; /* "." and ".." */
}

/* Creates the folder and opens it. If it is not the new one, fails: nothing in it may be moved or removed. */
static int make_folder(struct git_quarantine *q)
{
	cleanup_(text_finish) struct text path = {0};
	struct stat st;
	text_appendf(&path, "%s/" NAME, text_string(&q->objects));
	if (text_error(&path))
		return -ENOMEM;
	if (!mkdtemp(path.data))
		return -errno;
	text_append_string(&q->name, strrchr(path.data, '/') + 1);
	if (text_error(&q->name))
		return -ENOMEM;
	cleanup_(closep) int fd = open_folder(q->objects_fd, text_string(&q->name));
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid() || (st.st_mode & 0777) != 0700 || !is_empty(fd))
		return -EPERM;
	q->fd = take_fd(&fd);
	return 0;
}

int git_quarantine_open(struct git_quarantine *q, const char *top, struct gd_error *err)
{
	int r = open_objects(q, top, err);
	if (r < 0)
		return r;
	const char *objects = text_string(&q->objects);
	r = make_folder(q);
	if (r < 0)
		return error_set(err, r, "cannot create a folder in '%s': %s", objects, error_words(r));
	text_appendf(&q->variables[0], "GIT_OBJECT_DIRECTORY=%s/%s", objects, text_string(&q->name));
	/* Quoted, because a colon in the path would separate two paths. */
	text_append_string(&q->variables[1], "GIT_ALTERNATE_OBJECT_DIRECTORIES=\"");
	for (const char *p = objects; *p; p++) {
		if (*p == '"' || *p == '\\')
			text_append_char(&q->variables[1], '\\');
		text_append_char(&q->variables[1], *p);
	}
	text_append_char(&q->variables[1], '"');
	r = text_error(&q->variables[0]) ? -ENOMEM : text_error(&q->variables[1]);
	return r < 0 ? error_set(err, r, "out of memory") : 0;
}

int git_quarantine_run(const struct git_quarantine *q, const char *top, const char *index, const char *const *words,
	struct text *out, struct gd_error *err)
{
	cleanup_(text_finish) struct text variable = {0};
	text_appendf(&variable, "GIT_INDEX_FILE=%s", index);
	if (text_error(&variable))
		return error_set(err, -ENOMEM, "out of memory");
	/* Filters such as git-lfs store contents in folders of their own: keep these files private, too. */
	mode_t before = umask(077);
	int r = git_run_with(top,
		(const char *const[]){
			text_string(&variable), text_string(&q->variables[0]), text_string(&q->variables[1]), NULL},
		words, out, err);
	umask(before);
	return r;
}

/* ---- The check ------------------------------------------------------------------------ */

/* Whether others can create files in a directory of the path, which is relative to the top. */
static bool is_open_to_others(const char *top, const char *path)
{
	char dir[PATH_MAX];
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		if (snprintf(dir, sizeof(dir), "%s/%.*s", top, (int)(slash - path), path) >= (int)sizeof(dir))
			return true;
		cleanup_(closep) int fd = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || trust_objection(fd))
			return true;
	}
	return false;
}

static const char *path_of(const char *entry)
{
	const char *tab = strchr(entry, '\t');
	return tab ? tab + 1 : entry;
}

/* Both lists are sorted by path. */
int git_quarantine_check(const char *top, const struct text *before, const struct text *after, struct gd_error *err)
{
	const char *old = text_string(before), *old_end = old + before->length;
	const char *p = text_string(after), *end = p + after->length;
	for (; p < end; p += strlen(p) + 1) {
		while (old < old_end && strcmp(path_of(old), path_of(p)) < 0)
			old += strlen(old) + 1;
		bool is_known = old < old_end && strcmp(old, p) == 0;
		if (!is_known && is_open_to_others(top, path_of(p)))
			return error_set(err, -EPERM,
				"'%s' is new or changed, in a directory that other users can write: they could "
				"replace it with a link to a private file of yours while git copies it; commit it, add "
				"it to .gitignore, remove their write permission, or use --trust",
				path_of(p));
	}
	return 0;
}

/* ---- Moving and removing --------------------------------------------------------------- */

static bool is_name(const char *name)
{
	return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static int move_file(int from, int to, const char *name, mode_t mode)
{
	cleanup_(closep) int fd = file_open_regular(from, name, O_NOFOLLOW);
	if (fd < 0)
		return fd;
	return fchmod(fd, mode & 0444) < 0 || renameat(from, name, to, name) < 0 ? -errno : 0;
}

/* Moves the index files of packs, or all other files. Git uses a pack once it has an index. */
static int move_files(int from, int to, bool indexes, mode_t mode)
{
	int r = 0;
	cleanup_(closedirp) DIR *d = open_list(from);
	if (!d)
		return -errno;
	for (const struct dirent *e; r == 0 && (e = readdir(d));) {
		size_t size = strlen(e->d_name);
		bool is_index = size > 4 && strcmp(e->d_name + size - 4, ".idx") == 0;
		if (is_name(e->d_name) && is_index == indexes)
			r = move_file(from, to, e->d_name, mode);
	}
	return r;
}

static int move_folder(int from, int to, const char *name, mode_t mode, struct gd_error *err)
{
	cleanup_(closep) int below = open_folder(from, name);
	cleanup_(closep) int target = -1;
	if (below < 0 || (mkdirat(to, name, mode) < 0 && errno != EEXIST))
		return error_set(err, -errno, "'%s': %s", name, error_words(-errno));
	int r = trust_open_directory_at(to, name, true, &target, err);
	if (r < 0)
		return r;
	const char *objection = trust_objection(target);
	if (objection)
		return error_set(err, -EPERM, "'%s' %s", name, objection);
	r = move_files(below, target, false, mode);
	if (r == 0)
		r = move_files(below, target, true, mode);
	return r < 0 ? error_set(err, r, "'%s': %s", name, error_words(r)) : 0;
}

static int move_all(const struct git_quarantine *q, mode_t mode, struct gd_error *err)
{
	int r = 0;
	cleanup_(closedirp) DIR *d = open_list(q->fd);
	if (!d)
		return error_set(err, -errno, "%s", error_words(-errno));
	for (const struct dirent *e; r == 0 && (e = readdir(d));)
		if (is_name(e->d_name))
			r = move_folder(q->fd, q->objects_fd, e->d_name, mode, err);
	return r;
}

/* Whether the path that git used still leads to the folder. */
static bool is_in_place(const struct git_quarantine *q)
{
	struct stat mine, there;
	return fstat(q->fd, &mine) == 0 &&
	       fstatat(q->objects_fd, text_string(&q->name), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

int git_quarantine_accept(struct git_quarantine *q, struct gd_error *err)
{
	const char *objects = text_string(&q->objects);
	struct gd_error why = {0};
	struct stat st;
	if (!is_in_place(q))
		return error_set(err, -EPERM, "'%s/%s' was replaced while git used it", objects, text_string(&q->name));
	if (fstat(q->objects_fd, &st) < 0)
		return error_set(err, -errno, "'%s': %s", objects, error_words(-errno));
	/* As git does: a repository that a group shares ignores the umask. */
	mode_t before = umask(0), mode = st.st_mode & 07777;
	int r = move_all(q, mode & S_ISGID ? mode : mode & ~before, &why);
	umask(before);
	return r < 0 ? error_set(err, r, "cannot move objects to '%s': %s", objects, why.message) : 0;
}

/* Follows no links. Folders in the folders are those of a git that was killed. */
static void discard(int dir_fd, int depth)
{
	cleanup_(closedirp) DIR *d = open_list(dir_fd);
	for (const struct dirent *e; d && (e = readdir(d));) {
		if (!is_name(e->d_name) || unlinkat(dir_fd, e->d_name, 0) == 0 || errno != EISDIR || depth == MAX_DEPTH)
			continue;
		cleanup_(closep) int below = open_folder(dir_fd, e->d_name);
		if (below < 0)
			continue;
		discard(below, depth + 1);
		(void)unlinkat(dir_fd, e->d_name, AT_REMOVEDIR);
	}
}

void git_quarantine_finish(struct git_quarantine *q)
{
	if (q->fd >= 0)
		discard(q->fd, 0);
	if (q->name.length)
		(void)unlinkat(q->objects_fd, text_string(&q->name), AT_REMOVEDIR);
	closep(&q->fd);
	closep(&q->objects_fd);
	text_finish(&q->objects);
	text_finish(&q->name);
	text_finish(&q->variables[0]);
	text_finish(&q->variables[1]);
}
