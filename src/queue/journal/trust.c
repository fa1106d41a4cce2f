/* SPDX-License-Identifier: MIT */
#include "queue/journal/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/trust.h"

int trust_refuse(const char *path, const char *objection, struct gd_error *err)
{
	return error_set(err, -EPERM,
		"refusing to use '%s': it %s, so other users could run commands as you; work in another directory or name another file, or use --trust if you accept that",
		path, objection);
}

int trust_check_journal_directory(int dir_fd, const char *path, struct gd_error *err)
{
	struct gd_error why = {0};
	int r = trust_check_place(dir_fd, &why);
	if (r == 0)
		return 0;
	return error_set(err, r,
		"refusing to use '%s': %s, so other users could run commands as you; use --jobs-file with a file in a directory of your own, change the permissions, or use --trust if you trust these users",
		path, why.message);
}

int trust_check(int fd, const char *path, struct gd_error *err)
{
	const char *objection = trust_objection(fd);
	return objection ? trust_refuse(path, objection, err) : 0;
}

static int open_named(const char *path, int *ret_fd)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

/*
 * A user who can write the directory can rename another file of this user to this name, even in a sticky directory if
 * the name is free.
 */
static int check_above(const char *path, struct gd_error *err)
{
	const char *slash = strrchr(path, '/');
	cleanup_(freep) char *above = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
	if (!above)
		return -ENOMEM;
	/* Since the file was opened, another user may have put a link to a trusted directory there. */
	cleanup_(closep) int fd = -1;
	int r = trust_open_directory(above, false, &fd, NULL);
	if (r < 0)
		return r == -EPERM ? trust_refuse(path, TRUST_FOREIGN_WAY, err) : r;
	struct gd_error why = {0};
	r = trust_check_place(fd, &why);
	if (r == 0)
		return 0;
	return error_set(err, r,
		"refusing to use '%s': %s, so other users could run commands as you; name the file on the command line, or use --trust if you trust these users",
		path, why.message);
}

/* Checks whether a link of another user, even behind links of this user, is on the path to the opened file. */
static int check_links(const char *path, const struct stat *opened, struct gd_error *err)
{
	cleanup_(closep) int fd = -1;
	struct trust_way way = TRUST_WAY_INIT;
	struct stat st;
	int r = trust_open_any(AT_FDCWD, path, &fd, &way);
	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return -errno;
	return way.chooser || st.st_dev != opened->st_dev || st.st_ino != opened->st_ino
		       ? trust_refuse(path, TRUST_FOREIGN_WAY, err)
		       : 0;
}

int trust_open(const char *path, enum trust_choice choice, int *ret_fd, struct gd_error *err)
{
	cleanup_(freep) char *real = NULL;
	bool foreign;
	struct stat st;
	if (choice == TRUST_NAMED)
		return open_named(path, ret_fd);
	int r = trust_follow_links(path, &real, &foreign);
	if (r < 0)
		return r;
	if (foreign && choice == TRUST_FOUND)
		return trust_refuse(path, TRUST_FOREIGN_LINK, err);
	/* Non-blocking: it may be a pipe without a writer. */
	cleanup_(closep) int fd = open(real, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	r = choice == TRUST_FOUND ? trust_check(fd, path, err) : 0;
	if (r == 0 && choice == TRUST_FOUND)
		r = check_links(path, &st, err);
	if (r == 0 && choice == TRUST_FOUND)
		r = check_above(path, err);
	if (r == 0 && choice == TRUST_FOUND && strcmp(real, path) != 0)
		r = check_above(real, err);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}
