/* SPDX-License-Identifier: MIT */
#include "cli/queue_place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/state_dir.h"
#include "base/trust.h"

#define NAME "jobs.jsonl"

bool queue_place_is_here(void)
{
	struct stat st;
	return lstat(QUEUE_PLACE_HERE, &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

bool queue_place_is_planted(void)
{
	struct stat st;
	return lstat(QUEUE_PLACE_HERE, &st) == 0 && st.st_uid != 0 && !trust_is_user(st.st_uid);
}

bool queue_place_is_refused(struct gd_error *ret_why)
{
	cleanup_(closep) int fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0 && trust_check_place(fd, ret_why) < 0;
}

enum owner { OWNER_NONE, OWNER_USER, OWNER_OTHER };

/* A link belongs to the user who created it. Whether others can write the file is checked when it is opened. */
static enum owner look_at(const char *path)
{
	struct stat st;
	if (lstat(path, &st) < 0)
		return OWNER_NONE;
	if (st.st_uid != geteuid())
		return OWNER_OTHER;
	if (S_ISLNK(st.st_mode) && stat(path, &st) < 0)
		return OWNER_NONE;
	if (!S_ISREG(st.st_mode))
		return OWNER_NONE;
	return st.st_uid == geteuid() ? OWNER_USER : OWNER_OTHER;
}

/* Changes `dir` to its parent; false if that is not below `home`. */
static bool go_up(char *dir, const char *home)
{
	size_t length = strcmp(home, "/") == 0 ? 0 : strlen(home);
	char *slash = strrchr(dir, '/');
	if (!slash || slash == dir)
		return false;
	*slash = '\0';
	return strncmp(dir, home, length) == 0 && dir[length] == '/' && dir[length + 1];
}

void queue_place_skipped_finish(struct queue_place_skipped *s)
{
	free(s->path);
	free(s->why);
	*s = (struct queue_place_skipped){0};
}

/* *ret_why: how other users can replace files in the directory; NULL if they cannot. 0 or -ENOMEM. */
static int examine(const char *dir, char **ret_why)
{
	cleanup_(closep) int fd = -1;
	struct gd_error why = {0};
	int r = trust_open_directory(dir, false, &fd, &why);
	if (r == 0)
		r = trust_check_place(fd, &why);
	*ret_why = NULL;
	/* The command that opens the journal reports other errors. */
	if (r != -EPERM)
		return 0;
	*ret_why = strdup(why.message);
	return *ret_why ? 0 : -ENOMEM;
}

int queue_place_find_above(bool trust, char **ret, struct queue_place_skipped *ret_skipped)
{
	const char *variable = getenv("HOME");
	cleanup_(freep) char *home = variable && *variable == '/' ? realpath(variable, NULL) : NULL;
	cleanup_(freep) char *dir = getcwd(NULL, 0);
	struct queue_place_skipped skipped = {0};
	int r = 0;
	*ret = NULL;
	while (r == 0 && !*ret && home && dir && go_up(dir, home)) {
		cleanup_(freep) char *path = NULL;
		cleanup_(freep) char *why = NULL;
		if (asprintf(&path, "%s/" NAME, dir) < 0) {
			path = NULL;
			r = -ENOMEM;
			break;
		}
		enum owner owner = look_at(path);
		if (owner == OWNER_USER && !trust)
			r = examine(dir, &why);
		if (r == 0 && owner == OWNER_USER && !why)
			*ret = take_ptr(path);
		else if (r == 0 && owner != OWNER_NONE && !skipped.path)
			skipped = (struct queue_place_skipped){take_ptr(path), take_ptr(why)};
	}
	if (r < 0)
		queue_place_skipped_finish(&skipped);
	*ret_skipped = skipped;
	return r;
}

static int refuse_personal(const char *dir, struct gd_error *err)
{
	struct gd_error why = {0};
	state_dir_explain_host(&why);
	return trust_refuse_path(dir, false, "name another queue with --jobs-file", err,
		"refusing to use directory '%s' for the personal queue: %s, so other users could run commands as you",
		dir, why.message);
}

int queue_place_personal(bool make, char **ret, struct gd_error *err)
{
	char dir[PATH_MAX], *path;
	int fd = -1, r = state_dir_host_path(dir);
	if (r == -ENOENT)
		return error_set(
			err, -EINVAL, "cannot find the personal queue: HOME is not set; name a queue with --jobs-file");
	if (r == 0 && make)
		r = state_dir_open_host(true, &fd);
	closep(&fd);
	if (r == -EPERM)
		return refuse_personal(dir, err);
	if (r < 0)
		return error_set(err, r,
			"cannot create directory '%s' for the personal queue: %s; name another queue with --jobs-file",
			dir, error_words(r));
	if (asprintf(&path, "%s/" NAME, dir) < 0)
		return error_set(err, -ENOMEM, "cannot find the personal queue: out of memory");
	*ret = path;
	return 0;
}
