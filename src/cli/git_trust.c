/* SPDX-License-Identifier: MIT */
#include "cli/git_trust.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/text.h"
#include "base/trust.h"
#include "cli/git.h"

/* Checks a configuration file in a git directory; it may be missing. */
static int check_file(int dir_fd, const char *folder, const char *name, struct gd_error *err)
{
	cleanup_(closep) int fd = -1;
	uid_t chooser;
	int r = trust_open_any(dir_fd, name, &fd, &chooser);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return error_set(err, r, "'%s/%s': %s", folder, name, error_words(r));
	const char *objection = chooser ? "is a symbolic link of another user" : trust_objection(fd);
	return objection ? error_set(err, -EPERM, "'%s/%s' %s", folder, name, objection) : 0;
}

/* The path that `git rev-parse WORD` prints. This git command runs no programs. */
static int find_path(const char *dir, const char *word, struct text *ret, struct gd_error *err)
{
	int r = git_run(dir, NULL, (const char *const[]){"rev-parse", "--path-format=absolute", word, NULL}, ret, err);
	if (r == 0 && ret->length && ret->data[ret->length - 1] == '\n')
		ret->data[--ret->length] = '\0';
	return r;
}

int git_find_top(const char *dir, struct text *ret, struct gd_error *err)
{
	return find_path(dir, "--show-toplevel", ret, err);
}

static int check_directory(const char *path, bool has_config, struct gd_error *err)
{
	cleanup_(closep) int fd = -1;
	int r = trust_open_directory(path, true, &fd, err);
	if (r < 0)
		return r;
	const char *objection = trust_objection(fd);
	if (objection)
		return error_set(err, -EPERM, "'%s' %s", path, objection);
	if (has_config)
		r = check_file(fd, path, "config", err);
	return r < 0 || !has_config ? r : check_file(fd, path, "config.worktree", err);
}

int git_trust_check(const char *top, struct gd_error *err)
{
	static const char *const words[] = {"--git-dir", "--git-common-dir"};
	int r = check_directory(top, false, err);
	for (size_t i = 0; r == 0 && i < sizeof(words) / sizeof(*words); i++) {
		cleanup_(text_finish) struct text path = {0};
		r = find_path(top, words[i], &path, err);
		if (r == 0)
			r = check_directory(text_string(&path), true, err);
	}
	return r;
}
