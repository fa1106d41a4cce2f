/* SPDX-License-Identifier: MIT */
#include "cli/frozen_links.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/git.h"

struct links {
	const char *top; /* "" for "/" */
	const char *worktree, *journal_path, *log_dir;
};

/* Whether the path is the journal, a file next to it that belongs to it, or the folder of logs. */
static bool is_of_queue(const struct links *l, const char *path)
{
	size_t size = strlen(l->journal_path);
	bool is_journal = strncmp(path, l->journal_path, size) == 0 && (!path[size] || path[size] == '.');
	return is_journal || (l->log_dir && strcmp(path, l->log_dir) == 0);
}

static bool contains(const char *directory, const char *path)
{
	size_t size = strlen(directory);
	return path && strncmp(path, directory, size) == 0 && path[size] == '/';
}

/* Whether the path is a directory with entries. None of them is in the commit, so all are ignored. */
static bool has_ignored(const struct links *l, const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	cleanup_(closedirp) DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int count = 0;
	if (!d)
		closep(&fd);
	while (d && count < 3 && readdir(d))
		count++;
	return count == 3 /* with "." and ".." */ && !contains(path, l->journal_path) && !contains(path, l->log_dir);
}

/*
 * Whether the entry is a cache that programs create next to the code. Python uses a compiled file if the source has the
 * recorded size and time, so with a shared cache, a job could run the code of another tree.
 */
static bool is_cache(const char *name)
{
	static const char *const names[] = {
		"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/* Lists the entries of the top that are not in the worktree, each as "./NAME". */
static int list_missing(const struct links *l, struct text *ret, struct gd_error *err)
{
	cleanup_(closep) int tree = open(l->worktree, O_PATH | O_DIRECTORY | O_CLOEXEC);
	cleanup_(closedirp) DIR *d = opendir(*l->top ? l->top : "/");
	if (!d || tree < 0)
		return error_set(err, -errno, "cannot list '%s': %s", d ? l->worktree : l->top, error_words(-errno));
	for (const struct dirent *e; (e = readdir(d));) {
		struct stat st;
		char path[PATH_MAX];
		if (fstatat(tree, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
			fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
			!(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode)) ||
			(size_t)snprintf(path, sizeof(path), "%s/%s", l->top, e->d_name) >= sizeof(path) ||
			is_of_queue(l, path) || is_cache(e->d_name))
			continue;
		text_appendf(ret, "./%s", e->d_name);
		text_append_char(ret, '\0');
	}
	return 0;
}

static int link_entry(const struct links *l, const char *name, bool is_ignored, struct gd_error *err)
{
	char from[PATH_MAX], to[PATH_MAX];
	if ((size_t)snprintf(from, sizeof(from), "%s/%s", l->top, name) >= sizeof(from) ||
		(size_t)snprintf(to, sizeof(to), "%s/%s", l->worktree, name) >= sizeof(to))
		return error_set(err, -ENAMETOOLONG, "cannot link '%s': %s", name, error_words(-ENAMETOOLONG));
	if ((is_ignored || has_ignored(l, from)) && symlink(from, to) < 0 && errno != EEXIST)
		return error_set(err, -errno, "cannot link '%s': %s", to, error_words(-errno));
	return 0;
}

int frozen_links_create(
	const char *top, const char *worktree, const char *journal_path, const char *log_dir, struct gd_error *err)
{
	const struct links l = {strcmp(top, "/") == 0 ? "" : top, worktree, journal_path, log_dir};
	cleanup_(text_finish) struct text entries = {0};
	cleanup_(text_finish) struct text ignored = {0};
	int r = list_missing(&l, &entries, err);
	if (r == 0)
		r = git_list_ignored(top, &entries, &ignored, err);
	const char *next = text_string(&ignored), *p = text_string(&entries), *end = p + entries.length;
	for (; r == 0 && p < end; p += strlen(p) + 1) {
		bool is_ignored = strcmp(next, p) == 0;
		r = link_entry(&l, p + 2, is_ignored, err);
		if (is_ignored)
			next += strlen(next) + 1;
	}
	return r;
}
