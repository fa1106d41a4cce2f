/* SPDX-License-Identifier: MIT */
#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>

#include "base/cleanup.h"
#include "base/file.h"

static int lock_call(int fd, int command, short type)
{
	struct flock f = {.l_type = type, .l_whence = SEEK_SET};
	for (;;) {
		if (fcntl(fd, command, &f) == 0)
			return 0;
		if (errno == EINTR && command == F_SETLKW)
			continue;
		return errno == EACCES ? -EAGAIN : -errno;
	}
}

int lock_take(int fd)
{
	return lock_call(fd, F_SETLKW, F_WRLCK);
}

int lock_try(int fd)
{
	return lock_call(fd, F_SETLK, F_WRLCK);
}

int lock_release(int fd)
{
	return lock_call(fd, F_SETLK, F_UNLCK);
}

int lock_holder(int fd, pid_t *ret)
{
	struct flock f = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	if (fcntl(fd, F_GETLK, &f) < 0)
		return -errno;
	if (f.l_type == F_UNLCK)
		*ret = 0;
	else
		*ret = f.l_pid > 0 ? f.l_pid : -1;
	return 0;
}

int lock_holder_at(int dirfd, const char *name, pid_t *ret)
{
	cleanup_(closep) int fd = file_open_regular(dirfd, name, O_NOFOLLOW);
	if (fd == -ENOENT) {
		*ret = 0;
		return 0;
	}
	if (fd < 0)
		return fd;
	return lock_holder(fd, ret);
}
