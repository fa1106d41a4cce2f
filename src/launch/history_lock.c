/* SPDX-License-Identifier: MIT */
#include "launch/history_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/lock.h"

#define LOCK_NAME "launch.lock"

static int say_who(const char *what, int fd, struct gd_error *err)
{
	pid_t pid = 0;
	if (lock_holder(fd, &pid) == 0 && pid > 0)
		return error_set(err, -EBUSY, "%s (process %d)", what, (int)pid);
	return error_set(err, -EBUSY, "%s", what);
}

static int say_reader(const char *name, int fd, struct gd_error *err)
{
	char reader[LOCK_WORDS_ROOM];
	lock_describe_reader(fd, reader);
	return error_set(err, -EBUSY, "cannot lock '%s': %s has a lock on it; end that process or remove the file",
		name, reader);
}

static int open_file(const char *path, int *ret_fd, struct gd_error *err)
{
	const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
	struct stat st;
	/* First without O_CREAT: with it, the kernel may refuse files of other users without a clear error. */
	cleanup_(closep) int fd = open(path, flags);
	if (fd < 0 && errno == ENOENT)
		fd = open(path, flags | O_CREAT, 0600);
	if (fd < 0 && errno == ELOOP)
		return error_set(err, -EPERM, "cannot open '%s': it is a symbolic link; remove it", path);
	if (fd < 0 && errno == ENXIO)
		return error_set(err, -EPERM, "cannot open '%s': it is not a regular file; remove it", path);
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, -errno, "cannot open '%s': %s", path, error_words(errno));
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return error_set(err, -EPERM, "cannot open '%s': it %s; remove it", path,
			S_ISREG(st.st_mode) ? "belongs to another user" : "is not a regular file");
	/* Another user may have moved it there. Using it as the lock would change its mode and later remove it. */
	if (st.st_size > 0 || st.st_nlink > 1)
		return error_set(err, -EPERM,
			"cannot lock '%s': it is not a lock file, because it has contents or several hard links; rename it",
			path);
	lock_protect(fd); /* the output folder may have been made readable by everyone */
	*ret_fd = take_fd(&fd);
	return 0;
}

/* Whether the locked file is still the one at the path: its last owner may have removed it after we opened it. */
static bool is_current(int fd, const char *path)
{
	struct stat mine, there;
	return fstat(fd, &mine) == 0 && lstat(path, &there) == 0 && mine.st_dev == there.st_dev &&
	       mine.st_ino == there.st_ino;
}

int output_lock_take(
	struct history_lock *l, const char *lock_path, const char *name, const char *busy, struct gd_error *err)
{
	cleanup_(freep) char *path = strdup(lock_path);
	if (!path)
		return error_set(err, -ENOMEM, "cannot open '%s': out of memory", lock_path);
	for (;;) {
		cleanup_(closep) int fd = -1;
		int r = open_file(path, &fd, err);
		if (r < 0)
			return r;
		r = lock_take_free(fd);
		if (r == -EAGAIN)
			return say_who(busy, fd, err);
		if (r == LOCK_BLOCKED)
			return say_reader(name, fd, err);
		if (r == 0 && !is_current(fd, path))
			continue;
		l->fd = take_fd(&fd);
		l->path = take_ptr(path);
		return 0;
	}
}

int history_lock_take(struct history_lock *l, const char *history_path, struct gd_error *err)
{
	const char *slash = strrchr(history_path, '/');
	char busy[sizeof(err->message)];
	cleanup_(freep) char *path = NULL;
	if (asprintf(&path, "%.*s" LOCK_NAME, slash ? (int)(slash + 1 - history_path) : 0, history_path) < 0) {
		path = NULL;
		return error_set(err, -ENOMEM, "cannot open '%s': out of memory", history_path);
	}
	snprintf(
		busy, sizeof(busy), "cannot write '%s': another gpuq launch is using this output folder", history_path);
	return output_lock_take(l, path, path, busy, err);
}

void history_lock_release(struct history_lock *l)
{
	if (l->fd >= 0 && is_current(l->fd, l->path))
		unlink(l->path);
	closep(&l->fd);
	free(l->path);
	*l = (struct history_lock){.fd = -1};
}
