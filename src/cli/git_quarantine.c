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
#include "base/trust.h"
#include "cli/git.h"

/* `git prune` removes folders of this name that were left behind. */
#define NAME "tmp_objdir-gpuq-XXXXXX"

int git_quarantine_open(struct git_quarantine *q, const char *top, struct gd_error *err)
{
	int r = git_run(top, NULL,
		(const char *const[]){"rev-parse", "--path-format=absolute", "--git-path", "objects", NULL},
		&q->objects, err);
	if (r < 0)
		return r;
	if (q->objects.length && q->objects.data[q->objects.length - 1] == '\n')
		q->objects.data[--q->objects.length] = '\0';
	const char *objects = text_string(&q->objects);
	cleanup_(text_finish) struct text path = {0};
	text_appendf(&path, "%s/" NAME, objects);
	if (text_error(&path) || !mkdtemp(path.data))
		return error_set(err, -errno, "cannot create a folder in '%s': %s", objects, error_words(-errno));
	text_append_string(&q->path, text_string(&path));
	text_appendf(&q->variables[0], "GIT_OBJECT_DIRECTORY=%s", text_string(&path));
	/* Quoted, because a colon in the path would separate two paths. */
	text_append_string(&q->variables[1], "GIT_ALTERNATE_OBJECT_DIRECTORIES=\"");
	for (const char *p = objects; *p; p++) {
		if (*p == '"' || *p == '\\')
			text_append_char(&q->variables[1], '\\');
		text_append_char(&q->variables[1], *p);
	}
	text_append_char(&q->variables[1], '"');
	r = text_error(&q->path) || text_error(&q->variables[0]) ? -ENOMEM : text_error(&q->variables[1]);
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

typedef int (*visitor)(int from, int to, const char *name, mode_t mode);

static int move(int from, int to, const char *name, mode_t mode)
{
	return fchmodat(from, name, mode & 0444, 0) < 0 || renameat(from, name, to, name) < 0 ? -errno : 0;
}

static int discard(int from, int to, const char *name, mode_t mode)
{
	(void)to, (void)mode;
	return unlinkat(from, name, 0) < 0 ? -errno : 0;
}

static bool is_name(const char *name)
{
	return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* Calls visit() for the index files of packs, or for all other files. Git uses a pack once it has an index. */
static int visit_files(int from, int to, bool indexes, visitor visit, mode_t mode)
{
	int fd = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		r = -errno;
		closep(&fd);
		return r;
	}
	for (struct dirent *e; r == 0 && (e = readdir(d));) {
		size_t size = strlen(e->d_name);
		bool is_index = size > 4 && strcmp(e->d_name + size - 4, ".idx") == 0;
		if (is_name(e->d_name) && is_index == indexes)
			r = visit(from, to, e->d_name, mode);
	}
	closedir(d);
	return r;
}

/* Empties the folder `name`, and removes it. */
static int visit_folder(int from, int to, const char *name, visitor visit, mode_t mode)
{
	cleanup_(closep) int below = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (below < 0)
		return -errno;
	if (to >= 0 && mkdirat(to, name, mode) < 0 && errno != EEXIST)
		return -errno;
	cleanup_(closep) int target = to < 0 ? -1 : openat(to, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (to >= 0 && target < 0)
		return -errno;
	int r = visit_files(below, target, false, visit, mode);
	if (r == 0)
		r = visit_files(below, target, true, visit, mode);
	return r == 0 && unlinkat(from, name, AT_REMOVEDIR) < 0 ? -errno : r;
}

static int visit_all(const struct git_quarantine *q, int to, visitor visit, mode_t mode)
{
	int r = 0;
	DIR *d = opendir(text_string(&q->path));
	if (!d)
		return -errno;
	for (struct dirent *e; r == 0 && (e = readdir(d));)
		if (is_name(e->d_name))
			r = visit_folder(dirfd(d), to, e->d_name, visit, mode);
	closedir(d);
	return r;
}

int git_quarantine_accept(struct git_quarantine *q, struct gd_error *err)
{
	cleanup_(closep) int to = open(text_string(&q->objects), O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	int r = to < 0 || fstat(to, &st) < 0 ? -errno : 0;
	if (r == 0) {
		/* As git does: a repository that a group shares ignores the umask. */
		mode_t before = umask(0), mode = st.st_mode & 07777;
		r = visit_all(q, to, move, mode & S_ISGID ? mode : mode & ~before);
		umask(before);
	}
	return r < 0 ? error_set(err, r, "cannot move objects to '%s': %s", text_string(&q->objects), error_words(r))
		     : 0;
}

void git_quarantine_finish(struct git_quarantine *q)
{
	if (q->path.length) {
		(void)visit_all(q, -1, discard, 0);
		(void)rmdir(text_string(&q->path));
	}
	text_finish(&q->objects);
	text_finish(&q->path);
	text_finish(&q->variables[0]);
	text_finish(&q->variables[1]);
}
