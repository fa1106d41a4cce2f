/* SPDX-License-Identifier: MIT */
/* For LD_PRELOAD: write() fails with ENOSPC for files whose path contains $FULL_DISK. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t write(int fd, const void *data, size_t size)
{
	char link[64], path[PATH_MAX] = "";
	const char *full = getenv("FULL_DISK");
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = full ? readlink(link, path, sizeof(path) - 1) : -1;
	if (n > 0 && strstr(path, full)) {
		errno = ENOSPC;
		return -1;
	}
	return syscall(SYS_write, fd, data, size);
}
