/* SPDX-License-Identifier: MIT */
#include "gpu/sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"

int sysfs_open(const char *root, const char *path, int flags)
{
	char full[PATH_MAX];
	int n = snprintf(full, sizeof(full), "%s/%s", root, path);
	if (n < 0 || (size_t)n >= sizeof(full))
		return -ENAMETOOLONG;
	int fd = open(full, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

DIR *sysfs_opendir(const char *root, const char *path)
{
	int fd = sysfs_open(root, path, O_RDONLY | O_DIRECTORY);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (fd >= 0 && !d)
		close(fd);
	return d;
}

bool sysfs_read_number(int dir, const char *path, int64_t *ret)
{
	char text[64];
	if (file_read_small(dir, path, text, sizeof(text)) <= 0)
		return false;
	char *end;
	errno = 0;
	long long value = strtoll(text, &end, 0);
	if (errno || end == text || *end)
		return false;
	*ret = value;
	return true;
}
