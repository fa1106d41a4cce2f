/* SPDX-License-Identifier: MIT */
#include "cli/git_trust.h"

#include <errno.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/text.h"
#include "base/trust.h"
#include "cli/git.h"

/* A configuration in a folder of git; there need not be one. */
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

/* The directory that `git rev-parse WORD` prints. This command of git runs no program. */
static int check_directory(const char *dir, const char *word, struct gd_error *err)
{
	cleanup_(text_finish) struct text path = {0};
	cleanup_(closep) int fd = -1;
	int r = git_run(
		dir, NULL, (const char *const[]){"rev-parse", "--path-format=absolute", word, NULL}, &path, err);
	if (r < 0)
		return r;
	if (path.length && path.data[path.length - 1] == '\n')
		path.data[--path.length] = '\0';
	r = trust_open_directory(text_string(&path), true, &fd, err);
	if (r < 0)
		return r;
	const char *objection = trust_objection(fd);
	if (objection)
		return error_set(err, -EPERM, "'%s' %s", text_string(&path), objection);
	r = check_file(fd, text_string(&path), "config", err);
	return r < 0 ? r : check_file(fd, text_string(&path), "config.worktree", err);
}

int git_trust_check(const char *dir, struct gd_error *err)
{
	static const char *const words[] = {"--show-toplevel", "--git-dir", "--git-common-dir"};
	int r = 0;
	for (size_t i = 0; r == 0 && i < sizeof(words) / sizeof(*words); i++)
		r = check_directory(dir, words[i], err);
	return r;
}
