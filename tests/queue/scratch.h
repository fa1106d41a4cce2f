/* SPDX-License-Identifier: MIT */
/* A folder of a test's own, entered and, at the end, removed. */
#ifndef TESTS_QUEUE_SCRATCH_H
#define TESTS_QUEUE_SCRATCH_H

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch_path[64];

static inline int scratch_enter(void **state)
{
	(void)state;
	snprintf(scratch_path, sizeof(scratch_path), "/tmp/gpuq-test-XXXXXX");
	return mkdtemp(scratch_path) && chdir(scratch_path) == 0 ? 0 : -1;
}

static inline int scratch_remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	return remove(path);
}

static inline int scratch_leave(void **state)
{
	(void)state;
	return chdir("/") == 0 ? nftw(scratch_path, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS) : -1;
}

static inline void scratch_write(const char *path, const void *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size || close(fd) < 0)
		abort();
}

static inline void scratch_write_string(const char *path, const char *string)
{
	scratch_write(path, string, strlen(string));
}

#endif
