/* SPDX-License-Identifier: MIT */
/* frozen_tree_remove(), frozen_tree_is_of_queue() */
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
#include "base/trust.h"
#include "cli/frozen_directory.h"
#include "cli/frozen_tree.h"
#include "cli/git.h"
#include "cli/git_trust.h"

/* Depth of nested directories in a tree. */
#define MAX_DEPTH 100

#define DIRECTORY_FLAGS (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

#define GIT(...) ((const char *const[]){__VA_ARGS__, NULL})

/* A link that we created, or a cache. */
static bool is_ours(const char *tree, const char *entry)
{
	char path[PATH_MAX], target[PATH_MAX];
	size_t size = strlen(entry);
	bool link = snprintf(path, sizeof(path), "%s/%s", tree, entry) < (int)sizeof(path) &&
		    readlink(path, target, sizeof(target)) > 0;
	return (link && !strchr(entry, '/')) || (size > 12 && strcmp(entry + size - 12, "__pycache__/") == 0) ||
	       strcmp(entry, "__pycache__/") == 0 || strstr(entry, "__pycache__/");
}

static bool is_same_directory(const char *a, const char *b)
{
	struct stat x, y;
	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int check_directories(int fd, const char *path, int depth, struct gd_error *err);

static int check_entry(int dir_fd, const char *name, const char *above, int depth, struct gd_error *err)
{
	cleanup_(freep) char *path = NULL;
	struct stat st;
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		!S_ISDIR(st.st_mode))
		return 0;
	if (asprintf(&path, "%s/%s", above, name) < 0)
		path = NULL;
	if (!path)
		return error_set(err, -ENOMEM, "out of memory");
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = fd < 0 ? -errno : depth == MAX_DEPTH ? -ELOOP : 0;
	if (r == 0)
		return check_directories(fd, path, depth + 1, err);
	closep(&fd);
	return error_set(err, r, "'%s': %s", path, error_words(r));
}

/* Checks a directory and those in it. Closes fd. */
static int check_directories(int fd, const char *path, int depth, struct gd_error *err)
{
	const char *objection = trust_objection(fd);
	cleanup_(closedirp) DIR *d = fdopendir(fd);
	if (!d) {
		closep(&fd);
		return error_set(err, -ENOMEM, "out of memory");
	}
	if (objection)
		return error_set(err, -EPERM,
			"'%s' %s, so other users could choose what is removed; run chmod -R go-w on it; if it belongs to others, look at it and replace it with a copy",
			path, objection);
	int r = 0;
	for (const struct dirent *e; r == 0 && (e = readdir(d));)
		r = check_entry(fd, e->d_name, path, depth, err);
	return r;
}

/*
 * Git removes files by their paths. A user who can write a directory of the tree (the job can have created one, with
 * any umask) could replace it with a link meanwhile, and git would remove files elsewhere. The mode of the tree keeps
 * others out, unless the user has changed it.
 */
static int check_writers(const char *path, struct gd_error *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, -errno, "%s", error_words(errno));
	if (trust_is_open_to_others(fd))
		return check_directories(fd, path, 0, err);
	closep(&fd);
	return 0;
}

/* The path may have been replaced by a directory of another working tree. */
static int check_tree(const char *path, bool trust, struct gd_error *err)
{
	cleanup_(text_finish) struct text top = {0};
	int r = trust ? 0 : git_trust_check(path, err);
	if (r == 0)
		r = git_find_top(path, &top, err);
	if (r == 0 && !is_same_directory(text_string(&top), path))
		return error_set(err, -EINVAL, "not a git working tree");
	return r < 0 || trust ? r : check_writers(path, err);
}

/* 1: something was added, changed or removed. */
static int find_changes(const char *path, struct gd_error *err)
{
	cleanup_(text_finish) struct text status = {0};
	int r = git_run(path, NULL,
		GIT("--no-optional-locks", "status", "--porcelain", "-z", "--untracked-files=all", "--ignored=matching",
			"--no-renames"),
		&status, err);
	for (const char *p = text_string(&status); r == 0 && p < text_string(&status) + status.length;
		p += strlen(p) + 1)
		if ((strncmp(p, "?? ", 3) != 0 && strncmp(p, "!! ", 3) != 0) || !is_ours(path, p + 3))
			return 1;
	return r;
}

int frozen_tree_remove(const char *path, const char *commit, bool trust, struct gd_error *err)
{
	cleanup_(text_finish) struct text head = {0};
	cleanup_(text_finish) struct text out = {0};
	cleanup_(text_finish) struct text common = {0};
	if (access(path, F_OK) < 0)
		return 0;
	int r = check_tree(path, trust, err);
	if (r == 0)
		r = find_changes(path, err);
	/* The job may have created commits that nothing else refers to. */
	if (r == 0 && commit)
		r = git_run(path, NULL, GIT("rev-parse", "HEAD"), &head, err);
	git_cut_newline(&head);
	if (r == 0 && commit && strcmp(text_string(&head), commit) != 0)
		return 1;
	if (r == 0)
		r = git_run(path, NULL, GIT("rev-parse", "--path-format=absolute", "--git-common-dir"), &common, err);
	git_cut_newline(&common);
	return r ? r : git_run(text_string(&common), NULL, GIT("worktree", "remove", "--force", path), &out, err);
}

bool frozen_tree_is_of_queue(const char *path, int queue_fd)
{
	const char *slash = strrchr(path, '/');
	if (*path != '/' || strcmp(slash, "/.") == 0 || strcmp(slash, "/..") == 0)
		return false;
	cleanup_(closep) int folder = openat(queue_fd, "trees", DIRECTORY_FLAGS);
	cleanup_(closep) int tree = folder < 0 ? -1 : openat(folder, slash + 1, DIRECTORY_FLAGS);
	cleanup_(closep) int named = open(path, DIRECTORY_FLAGS);
	return tree >= 0 && named >= 0 && frozen_directory_is_same(tree, named);
}
