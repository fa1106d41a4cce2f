/* SPDX-License-Identifier: MIT */
/* A folder of a test's own, entered and, at the end, removed; and files in it. */
#ifndef TESTS_LAUNCH_FOLDER_H
#define TESTS_LAUNCH_FOLDER_H

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder_path[64];

static inline int folder_enter(void **state)
{
	(void)state;
	snprintf(folder_path, sizeof(folder_path), "/tmp/gpuq-test-XXXXXX");
	return mkdtemp(folder_path) && chdir(folder_path) == 0 ? 0 : -1;
}

static inline int folder_remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	return remove(path);
}

static inline int folder_leave(void **state)
{
	(void)state;
	return chdir("/") == 0 ? nftw(folder_path, folder_remove_one, 16, FTW_DEPTH | FTW_PHYS) : -1;
}

/* A file of so many bytes, with the folders above it. */
static inline void folder_put(const char *path, size_t size)
{
	char above[4096];
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(above, sizeof(above), "%.*s", (int)(slash - path), path);
		mkdir(above, 0755);
	}
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	close(fd);
}

static inline void folder_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static inline int folder_has(const char *path)
{
	return access(path, F_OK) == 0;
}

#define folder_test(f) cmocka_unit_test_setup_teardown(f, folder_enter, folder_leave)

#endif
