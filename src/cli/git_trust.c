/* SPDX-License-Identifier: MIT */
#include "cli/git_trust.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "base/trust.h"
#include "cli/git.h"
#include "cli/git_alternates.h"

/* The path that `git rev-parse WORDS…` prints. This git command runs no programs. */
static int find_path(const char *dir, const char *word, const char *name, struct text *ret, struct gd_error *err)
{
	int r = git_run(
		dir, NULL, (const char *const[]){"rev-parse", "--path-format=absolute", word, name, NULL}, ret, err);
	if (r == 0)
		git_cut_newline(ret);
	return r;
}

int git_find_top(const char *dir, struct text *ret, struct gd_error *err)
{
	return find_path(dir, "--show-toplevel", NULL, ret, err);
}

/* Adds advice to the objection of a check of `folder`. */
static int explain(int code, const struct gd_error *why, const char *folder, struct gd_error *err)
{
	if (code != -EPERM)
		return error_set(err, -EPERM, "%s; remove it, change its permissions", why->message);
	cleanup_(text_finish) struct text quoted = {0};
	shell_quote(&quoted, folder, strlen(folder));
	/* chmod does not change a default access list. */
	bool is_list = strstr(why->message, "default access list");
	return error_set(err, code,
		"%s, so other users could run commands as you; look at .git/config, then run %s %s, clone the repository if its files belong to others",
		why->message, is_list ? "setfacl -R -k" : "chmod -R go-w", text_string(&quoted));
}

/* Opens a directory that no other user can write or replace. */
static int open_directory(const char *path, int *ret, struct gd_error *err)
{
	cleanup_(closep) int fd = -1;
	int r = trust_open_directory(path, true, &fd, err);
	const char *objection = r < 0 ? NULL : trust_objection(fd);
	if (objection)
		return error_set(err, -EPERM, "'%s' %s", path, objection);
	if (r == 0)
		*ret = take_fd(&fd);
	return r;
}

/*
 * A file that leads to a git directory: ".git" in a working tree, or "commondir". Git prints the path without links,
 * but follows those in the file each time.
 */
static int check_pointer(int dir_fd, const char *name, const char *prefix, struct gd_error *err)
{
	char text[PATH_MAX + 16];
	cleanup_(closep) int fd = -1;
	size_t skipped = strlen(prefix);
	int n = file_read_small(dir_fd, name, text, sizeof(text));
	if (n == -ENOENT)
		return 0;
	if (n < 0)
		return error_set(err, n, "'%s': %s", name, error_words(n));
	if (strncmp(text, prefix, skipped) != 0)
		return error_set(err, -EINVAL, "'%s' is not a file of git", name);
	return trust_open_directory_at(dir_fd, text + skipped, true, &fd, err);
}

/* ".git" in the top, if it is not the git directory itself. */
static int check_link(int top_fd, const char *top, struct gd_error *err)
{
	cleanup_(closep) int fd = -1;
	cleanup_(text_finish) struct text path = {0};
	struct stat st;
	if (fstatat(top_fd, ".git", &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISDIR(st.st_mode))
		return 0;
	text_appendf(&path, "%s/.git", top);
	if (text_error(&path))
		return error_set(err, -ENOMEM, "out of memory");
	if (S_ISLNK(st.st_mode))
		return trust_open_directory_at(top_fd, ".git", true, &fd, err);
	int r = trust_check_target(text_string(&path), err);
	return r < 0 ? r : check_pointer(top_fd, ".git", "gitdir: ", err);
}

static int check_top(const char *top, struct gd_error *err)
{
	cleanup_(closep) int fd = -1;
	struct gd_error why = {0};
	int r = open_directory(top, &fd, &why);
	if (r == 0)
		r = check_link(fd, top, &why);
	if (r == -EPERM)
		return trust_refuse_path(top, false, "clone the repository to a directory of your own", err,
			"%s, so other users could run commands as you", why.message);
	return r < 0 ? error_set(err, r, "%s", why.message) : 0;
}

/* Another user may have renamed a directory since the path was determined. */
static int check_place(int fd, const char *path, struct gd_error *err)
{
	struct stat here, there;
	cleanup_(closep) int found = -1;
	int r = trust_open_directory(path, false, &found, NULL);
	if (r == 0 && fstat(fd, &here) == 0 && fstat(found, &there) == 0 && here.st_dev == there.st_dev &&
		here.st_ino == there.st_ino)
		return 1;
	return error_set(err, -EPERM, "'%s' has just been replaced; try again", path);
}

/* The nearest repository was skipped, and no directory above has one. */
static int refuse_foreign(const char *path, uid_t owner, struct gd_error *err)
{
	char room[4096], name[64];
	struct passwd pw, *user = NULL;
	snprintf(name, sizeof(name), "the user with the id %u", (unsigned)owner);
	if (getpwuid_r(owner, &pw, room, sizeof(room), &user) == 0 && user)
		snprintf(name, sizeof(name), "user '%.50s'", user->pw_name);
	return error_set(err, -EPERM,
		"the git repository in '%s' belongs to %s, who could run commands as you; clone it to a directory of your own",
		path, name);
}

/*
 * Finds the directory with ".git" without git, which would read the configuration of a repository that others can put
 * into a directory. 1: this directory is a candidate, 0: go up. A directory of ours that others can write is a
 * candidate, too: the check of the repository refuses it, with advice. skipped: why the nearest repository is not used.
 */
static int is_candidate(int fd, const char *path, struct gd_error *skipped, struct gd_error *err)
{
	struct stat st;
	if (fstatat(fd, ".git", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (!trust_objection(fd))
		return check_place(fd, path, err);
	if (st.st_uid == geteuid())
		return check_top(path, err);
	if (!skipped->code)
		refuse_foreign(path, st.st_uid, skipped);
	return 0;
}

/* Goes up by descriptors: a path can lead elsewhere at any moment if others can write a directory in it. */
int git_find_trusted_top(int cwd_fd, struct text *ret, struct gd_error *err)
{
	char dir[PATH_MAX];
	struct gd_error skipped = {0};
	int r = 0;
	/* The user has chosen the repository. */
	if (getenv("GIT_DIR"))
		return git_find_top(".", ret, err);
	cleanup_(closep) int fd = openat(cwd_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || !getcwd(dir, sizeof(dir)))
		return error_set(err, -errno, "cannot find the current directory: %s", error_words(errno));
	for (char *end;
		fd >= 0 && (r = is_candidate(fd, dir, &skipped, err)) == 0 && (end = strrchr(dir, '/')) && end[1];
		end[end == dir] = '\0') {
		int above = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		close_fd(&fd);
		fd = above;
	}
	if (r == 0 && skipped.code)
		return error_set(err, skipped.code, "%s", skipped.message);
	if (r == 0)
		return error_set(err, -ENOENT, "not in a git repository");
	return r < 0 ? r : git_find_top(dir, ret, err);
}

static int check_folder(const char *path, struct gd_error *err)
{
	cleanup_(closep) int fd = -1;
	struct gd_error why = {0};
	int r = open_directory(path, &fd, &why);
	if (r == 0)
		r = trust_check_tree(fd, "hooks", &why);
	if (r == 0)
		r = check_pointer(fd, "commondir", "", &why);
	return r < 0 ? explain(r, &why, path, err) : 0;
}

/* The folder of objects, if it is not in the git directory `common`, and the folders that it borrows from. */
static int check_objects(const char *path, const char *common, struct gd_error *err)
{
	cleanup_(closep) int fd = -1;
	struct gd_error why = {0};
	size_t size = strlen(common);
	bool is_known = strncmp(path, common, size) == 0 && strcmp(path + size, "/objects") == 0;
	int r = open_directory(path, &fd, &why);
	if (r == 0 && !is_known)
		r = trust_check_tree(fd, NULL, &why);
	if (r < 0)
		return explain(r, &why, path, err);
	return git_alternates_check(fd, err);
}

/* Git uses another index in its hooks. */
static int check_index(const char *top, struct gd_error *err)
{
	cleanup_(text_finish) struct text path = {0};
	struct gd_error why = {0};
	if (!getenv("GIT_INDEX_FILE"))
		return 0;
	int r = find_path(top, "--git-path", "index", &path, err);
	if (r < 0)
		return r;
	r = trust_check_target(text_string(&path), &why);
	return r < 0 ? explain(r, &why, text_string(&path), err) : 0;
}

int git_trust_check(const char *top, struct gd_error *err)
{
	cleanup_(text_finish) struct text dir = {0};
	cleanup_(text_finish) struct text common = {0};
	cleanup_(text_finish) struct text objects = {0};
	int r = check_top(top, err);
	if (r == 0)
		r = find_path(top, "--git-dir", NULL, &dir, err);
	if (r == 0)
		r = check_folder(text_string(&dir), err);
	if (r == 0)
		r = find_path(top, "--git-common-dir", NULL, &common, err);
	if (r == 0 && strcmp(text_string(&common), text_string(&dir)) != 0)
		r = check_folder(text_string(&common), err);
	if (r == 0)
		r = find_path(top, "--git-path", "objects", &objects, err);
	if (r == 0)
		r = check_objects(text_string(&objects), text_string(&common), err);
	return r < 0 ? r : check_index(top, err);
}
