/* SPDX-License-Identifier: MIT */
#include "queue/journal/environment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

/* What was saved less than so long ago may be meant for a job that is not in the journal yet. */
#define SWEEP_AGE_S 3600
/* The kernel takes much less. */
#define MAX_BYTES (64 << 20)

/* So that it is still there after a power cut. Some file systems cannot sync a directory and say so. */
static int sync_folders(int dir_fd)
{
	cleanup_(closep) int fd = openat(dir_fd, "env", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || (fsync(fd) < 0 && errno != EINVAL) || (fsync(dir_fd) < 0 && errno != EINVAL))
		return -errno;
	return 0;
}

static int write_new(int dir_fd, const char *path, const struct text *t)
{
	char draft[64];
	snprintf(draft, sizeof(draft), "env/draft.%d", (int)getpid());
	cleanup_(closep) int fd = openat(dir_fd, draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	int r = file_write_all(fd, text_string(t), t->length);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(dir_fd, draft, dir_fd, path) < 0)
		r = -errno;
	if (r == 0)
		r = sync_folders(dir_fd);
	if (r < 0)
		unlinkat(dir_fd, draft, 0);
	return r;
}

int environment_save(int dir_fd, char *const *environment, char ret_name[HASH_TEXT], struct gd_error *err)
{
	cleanup_(text_finish) struct text t = {0};
	/* "_" is the last command of a shell: another one each time, and nobody's business. */
	for (char *const *e = environment; *e; e++)
		if (strncmp(*e, "_=", 2) != 0)
			text_append(&t, *e, strlen(*e) + 1);
	if (text_error(&t))
		return error_set(err, -ENOMEM, "keeping the environment: out of memory");
	char name[HASH_TEXT], path[HASH_TEXT + 8];
	hash_format(hash_bytes(text_string(&t), t.length), name);
	snprintf(path, sizeof(path), "env/%s", name);
	/* One that is there already is young again, so that no sweep takes it before our job is in the journal. */
	if (utimensat(dir_fd, path, NULL, AT_SYMLINK_NOFOLLOW) < 0) {
		int r = write_new(dir_fd, path, &t);
		if (r < 0)
			return error_set(err, r, "keeping the environment: %s", error_words(r));
	}
	memcpy(ret_name, name, HASH_TEXT);
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_young(int dir_fd, const char *path)
{
	struct stat st;
	if (fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return true;
	return st.st_mtim.tv_sec > time(NULL) - SWEEP_AGE_S;
}

/* Out of the way first, and looked at again: it may just have been saved anew. */
static void sweep_one(int dir_fd, const char *name)
{
	char path[300];
	static const char aside[] = "env/swept";
	snprintf(path, sizeof(path), "env/%s", name);
	if (is_young(dir_fd, path) || renameat(dir_fd, path, dir_fd, aside) < 0)
		return;
	if (!is_young(dir_fd, aside) || renameat(dir_fd, aside, dir_fd, path) < 0)
		unlinkat(dir_fd, aside, 0);
}

void environment_sweep(int dir_fd, const char *const *used, size_t count)
{
	int fd = openat(dir_fd, "env", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		closep(&fd);
		return;
	}
	for (struct dirent *e; (e = readdir(d));) {
		const char *name = e->d_name;
		if (name[0] != '.' && !(count && bsearch(&name, used, count, sizeof(*used), compare_names)))
			sweep_one(dir_fd, name);
	}
	closedir(d);
}

int environment_load(int dir_fd, const char *name, char **ret, size_t *ret_size)
{
	char path[HASH_TEXT + 8];
	if (strlen(name) >= HASH_TEXT || strchr(name, '/'))
		return -EINVAL;
	snprintf(path, sizeof(path), "env/%s", name);
	cleanup_(closep) int fd = file_open_regular(dir_fd, path, O_NOFOLLOW);
	struct stat st;
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size > MAX_BYTES)
		return -EFBIG;
	cleanup_(freep) char *data = malloc((size_t)st.st_size + 1);
	if (!data)
		return -ENOMEM;
	size_t have = 0;
	while (have < (size_t)st.st_size) {
		ssize_t n = read(fd, data + have, (size_t)st.st_size - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		have += (size_t)n;
	}
	data[have] = '\0';
	*ret = take_ptr(data);
	*ret_size = have;
	return 0;
}
