/* SPDX-License-Identifier: MIT */
#include "support/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "support/check.h"

static char entered[SCRATCH_PATH_SIZE];

int scratch_make(char path[SCRATCH_PATH_SIZE])
{
	snprintf(path, SCRATCH_PATH_SIZE, "/tmp/gpuq-test-XXXXXX");
	return mkdtemp(path) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	return remove(path);
}

int scratch_remove(const char *path)
{
	return nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int scratch_enter(void **state)
{
	(void)state;
	return scratch_make(entered) == 0 && chdir(entered) == 0 ? 0 : -1;
}

int scratch_leave(void **state)
{
	(void)state;
	return chdir("/") == 0 ? scratch_remove(entered) : -1;
}

const char *scratch_path(void)
{
	return entered;
}

static int create(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		check_failed(__FILE__, __LINE__, path);
	return fd;
}

void scratch_write(const char *path, const void *data, size_t size)
{
	int fd = create(path);
	check_equal(file_write_all(fd, data, size), 0);
	check_equal(close(fd), 0);
}

void scratch_write_text(const char *path, const char *text)
{
	scratch_write(path, text, strlen(text));
}

void scratch_make_above(const char *path)
{
	char above[4096];
	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(above, sizeof(above), "%.*s", (int)(slash - path), path);
		check_true(mkdir(above, 0755) == 0 || errno == EEXIST);
	}
}

void scratch_put(const char *path, size_t size_bytes)
{
	scratch_make_above(path);
	int fd = create(path);
	check_equal(ftruncate(fd, (off_t)size_bytes), 0);
	check_equal(close(fd), 0);
}

const char *scratch_read(const char *path)
{
	static char text[65536];
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
	text[n] = '\0';
	if (f)
		fclose(f);
	return text;
}

bool scratch_has(const char *path)
{
	return access(path, F_OK) == 0;
}
