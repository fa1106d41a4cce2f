/* SPDX-License-Identifier: MIT */
#include "queue/journal/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/named_file.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "base/trust.h"

int trust_refuse(const char *path, const char *objection, struct gd_error *err)
{
	return error_set(err, -EPERM,
		"refusing to use '%s': it %s, so other users could run commands as you; work in another directory or name another file, or use --trust if you accept that",
		path, objection);
}

int trust_check_links(const char *path, const char *objection, bool accepted, struct gd_error *err)
{
	if (!objection || (accepted && geteuid() != 0))
		return 0;
	if (!accepted)
		return trust_refuse(path, objection, err);
	return error_set(err, -EPERM,
		"refusing to use '%s': it %s, and root follows no links of other users to a queue; name the file without them",
		path, objection);
}

/* The message has the remedy first, then the alternatives: after the remedy, no option is needed next time. */
static int refuse(const char *path, const char *it, const char *why, const char *otherwise, struct gd_error *err)
{
	cleanup_(text_finish) struct text ways = {0};
	text_appendf(&ways, "%s, or use --trust if you trust these users", otherwise);
	return trust_refuse_path(path, true, text_string(&ways), err,
		"refusing to use '%s': %s%s, so other users could run commands as you", path, it, why);
}

int trust_check_journal_directory(int dir_fd, const char *path, struct gd_error *err)
{
	struct gd_error why = {0};
	int r = trust_check_place(dir_fd, &why);
	return r < 0 ? refuse(path, "", why.message, TRUST_OTHER_JOURNAL, err) : 0;
}

int trust_check(int fd, const char *path, const char *otherwise, struct gd_error *err)
{
	const char *objection = trust_objection(fd);
	return objection ? refuse(path, "it ", objection, otherwise, err) : 0;
}

int trust_check_root(int fd, const char *path, struct gd_error *err)
{
	struct stat st;
	struct passwd pw, *user = NULL;
	char room[4096];
	cleanup_(text_finish) struct text way_out = {0};
	if (geteuid() != 0)
		return 0;
	if (fstat(fd, &st) < 0)
		return error_set(err, -errno, "cannot examine '%s': %s", path, error_words(errno));
	if (st.st_uid == 0)
		return 0;
	if (trust_is_unmapped(st.st_uid) || getpwuid_r(st.st_uid, &pw, room, sizeof(room), &user) != 0 || !user)
		return error_set(err, -EPERM,
			"refusing to use '%s': it belongs to user %u, and root never runs or changes a queue of another user; run gpuq as that user",
			path, (unsigned)st.st_uid);
	shell_quote(&way_out, user->pw_name, strlen(user->pw_name));
	return error_set(err, -EPERM,
		"refusing to use '%s': it belongs to user '%s', and root never runs or changes a queue of another user; use: runuser --pty -l %s -c 'gpuq …'",
		path, user->pw_name, text_string(&way_out));
}

static int open_named(const char *path, bool trust, int *ret_fd, struct gd_error *err)
{
	cleanup_(closep) int place = -1;
	struct trust_way way = {.replaceable = true}; /* not examined */
	const char *objection;
	char found[32];
	struct stat st;
	int r = named_file_find(path, trust, &way, &place, &st, &objection);
	if (objection)
		return error_set(err, -EPERM, "cannot read '%s': %s; %s", path, objection,
			way.chooser && !trust
				? "name it without this link, or use --trust if you trust the owner of the link"
				: "copy its contents into a file");
	if (r < 0)
		return r == -EPERM ? -EACCES : r;
	snprintf(found, sizeof(found), "/proc/self/fd/%d", place);
	/* Waits for the writer of a pipe, but only briefly for a process that has a lease (F_SETLEASE) on a file. */
	int fd = S_ISREG(st.st_mode) ? file_open_leased(found) : open(found, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd == -EAGAIN)
		return error_set(
			err, -EPERM, "cannot read '%s': another process has a lease on it; try again later", path);
	if (fd < 0)
		return errno == EPERM ? -EACCES : -errno;
	*ret_fd = fd;
	return 0;
}

static int open_regular(int dir_fd, const char *name, int *ret_fd)
{
	struct stat st;
	/* Non-blocking: it may be a pipe without a writer. */
	cleanup_(closep) int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	*ret_fd = take_fd(&fd);
	return 0;
}

static int open_accepted(const char *path, int *ret_fd)
{
	cleanup_(freep) char *real = NULL;
	bool foreign;
	int r = trust_follow_links(path, &real, &foreign);
	return r < 0 ? r : open_regular(AT_FDCWD, real, ret_fd);
}

/*
 * A user who can write the directory can rename another file of this user to this name, even in a sticky directory if
 * the name is free. The path is resolved once: another user could exchange a part of it between two checks.
 */
static int open_found(const char *path, const char *otherwise, int *ret_fd, struct gd_error *err)
{
	cleanup_(closep) int dir_fd = -1, fd = -1;
	cleanup_(freep) char *name = NULL;
	struct gd_error why = {0};
	int r = trust_open_parent_stable(path, &dir_fd, &name, &why);
	if (r < 0)
		return r == -EPERM ? refuse(path, "", why.message, otherwise, err) : r;
	r = open_regular(dir_fd, name, &fd);
	if (r == 0 && (r = trust_check(fd, path, otherwise, err)) < 0)
		return r;
	/* Checked even if the file cannot be opened: another user may have put a pipe or an unreadable file there. */
	if (r != -ENOENT && trust_check_place(dir_fd, &why) < 0)
		return refuse(path, "", why.message, otherwise, err);
	if (r < 0)
		return r;
	*ret_fd = take_fd(&fd);
	return 0;
}

int trust_open(const char *path, enum trust_choice choice, const char *otherwise, int *ret_fd, struct gd_error *err)
{
	if (choice & TRUST_NAMED)
		return open_named(path, choice & TRUST_ACCEPTED, ret_fd, err);
	return choice & TRUST_ACCEPTED ? open_accepted(path, ret_fd) : open_found(path, otherwise, ret_fd, err);
}
