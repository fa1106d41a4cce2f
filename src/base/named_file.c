/* SPDX-License-Identifier: MIT */
#include "base/named_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/trust.h"

#define FLAGS (O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)

/* A new file can be written by this user only. */
static int open_regular(const char *path, int *ret_fd, struct gd_error *err)
{
	cleanup_(freep) char *name = NULL;
	cleanup_(closep) int dir_fd = -1;
	int r = trust_open_parent_stable(path, &dir_fd, &name, err);
	if (r < 0)
		return r;
	/* First without O_CREAT: with it, the kernel may refuse files of other users without a clear error. */
	int fd = openat(dir_fd, name, FLAGS | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		fd = openat(dir_fd, name, FLAGS | O_CREAT | O_NOFOLLOW, 0644);
	if (fd < 0)
		return error_set(err, -errno, "%s", error_words(-errno));
	*ret_fd = fd;
	return 0;
}

/* -EPERM: the path is a link of another user, or leads through links to one. */
static int check_links(const char *path, struct gd_error *err)
{
	cleanup_(freep) char *real = NULL;
	bool foreign;
	int r = trust_follow_links(path, &real, &foreign);
	if (r < 0)
		return error_set(err, r, "%s", error_words(r));
	return foreign ? error_set(err, -EPERM, "it is a symbolic link of another user") : 0;
}

static int make_blocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	return flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0 ? -errno : 0;
}

static bool is_of_others(const struct stat *st)
{
	return st->st_uid != 0 && st->st_uid != geteuid();
}

/* A pipe without a name, such as the one behind /dev/stdout, was passed to this process. */
bool named_file_is_pipe_of_others(int fd, const struct stat *st)
{
	struct statfs fs;
	return S_ISFIFO(st->st_mode) && is_of_others(st) && !(fstatfs(fd, &fs) == 0 && fs.f_type == PIPEFS_MAGIC);
}

/* Opened by its path, because the target of a link in /proc, such as /dev/stdout, may have no other path. */
int named_file_open_special(const char *path, int *ret_fd, struct gd_error *err)
{
	struct stat st;
	int r = check_links(path, err);
	if (r < 0)
		return r;
	cleanup_(closep) int fd = open(path, FLAGS);
	if (fd < 0 && errno == ENXIO)
		return error_set(err, -ENXIO, "no process is reading from it");
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, -errno, "%s", error_words(-errno));
	if (S_ISREG(st.st_mode))
		return error_set(err, -EPERM, "it has just been replaced");
	if (named_file_is_pipe_of_others(fd, &st))
		return error_set(err, -EPERM, "it is a pipe of another user");
	r = make_blocking(fd);
	if (r < 0)
		return error_set(err, r, "%s", error_words(r));
	*ret_fd = take_fd(&fd);
	return 0;
}

int named_file_open(const char *path, int *ret_fd, struct gd_error *err)
{
	cleanup_(closep) int fd = -1;
	struct stat st;
	int r = check_links(path, err);
	if (r < 0)
		return r;
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return named_file_open_special(path, ret_fd, err);
	r = open_regular(path, &fd, err);
	if (r < 0)
		return r;
	/* In the meantime, another user may have put a pipe there and never read from it. */
	if (fstat(fd, &st) < 0)
		return error_set(err, -errno, "%s", error_words(-errno));
	if (!S_ISREG(st.st_mode))
		return error_set(err, -EPERM, "it has just been replaced");
	if (is_of_others(&st))
		return error_set(err, -EPERM, "it belongs to another user");
	const char *objection = trust_objection(fd);
	if (objection)
		return trust_refuse_path(path, false, "remove it, or choose another file", err,
			"it %s, so others could change it afterwards", objection);
	r = make_blocking(fd);
	if (r < 0)
		return error_set(err, r, "%s", error_words(r));
	*ret_fd = take_fd(&fd);
	return 0;
}
