/* SPDX-License-Identifier: MIT */
#include "queue/journal/queue_registry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/state_dir.h"
#include "base/trust.h"

#define DIRECTORY "queues"

int queue_registry_add(const char *path)
{
	char name[HASH_TEXT];
	cleanup_(closep) int fd = -1;
	int r = state_dir_open_part(DIRECTORY, true, &fd);
	if (r < 0)
		return r;
	hash_format(hash_bytes(path, strlen(path)), name);
	return symlinkat(path, fd, name) == 0 || errno == EEXIST ? 0 : -errno;
}

/* -EBADMSG: not an entry of ours. */
static int read_entry(int fd, const char *name, char **ret)
{
	char path[PATH_MAX], expected[HASH_TEXT];
	ssize_t n = readlinkat(fd, name, path, sizeof(path));
	if (n < 0)
		return errno == EINVAL ? -EBADMSG : -errno;
	if (n == 0 || (size_t)n == sizeof(path) || path[0] != '/')
		return -EBADMSG;
	path[n] = '\0';
	hash_format(hash_bytes(path, (size_t)n), expected);
	if (strcmp(expected, name) != 0)
		return -EBADMSG;
	*ret = strdup(path);
	return *ret ? 0 : -ENOMEM;
}

int queue_registry_find(const char *hash, char **ret)
{
	cleanup_(closep) int fd = -1;
	if (strchr(hash, '/'))
		return -ENOENT;
	int r = state_dir_open_part(DIRECTORY, false, &fd);
	return r < 0 ? r : read_entry(fd, hash, ret);
}

static int add_path(struct queue_registry *r, char *path)
{
	if (array_reserve(r->paths, &r->capacity, r->count + 1) < 0) {
		free(path);
		return -ENOMEM;
	}
	r->paths[r->count++] = path;
	return 0;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/*
 * After a queue was removed from a directory of all users, another user may have put a journal there. The path has no
 * links, see queue_registry_add().
 */
static bool is_foreign(const char *path)
{
	struct stat st;
	return !trust_is_off() && lstat(path, &st) == 0 && st.st_uid != 0 && !trust_is_user(st.st_uid);
}

/* A journal that cannot be examined may still exist: only a missing one is removed. */
static int list_entry(struct queue_registry *r, int fd, const char *name)
{
	char *path;
	struct stat st;
	int e = read_entry(fd, name, &path);
	if (e == -ENOMEM)
		return e;
	if (e < 0)
		return 0;
	if (stat(path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR)) {
		(void)unlinkat(fd, name, 0);
		free(path);
		return 0;
	}
	if (is_foreign(path)) {
		free(path);
		return 0;
	}
	return add_path(r, path);
}

static int list_registered(struct queue_registry *r)
{
	int fd = -1, e = state_dir_open_part(DIRECTORY, false, &fd);
	if (e < 0)
		return e == -ENOENT ? 0 : e;
	cleanup_(closedirp) DIR *dir = fdopendir(fd);
	if (!dir) {
		e = -errno;
		close(fd);
		return e;
	}
	for (const struct dirent *entry; e == 0 && (entry = readdir(dir));)
		if (entry->d_name[0] != '.')
			e = list_entry(r, dirfd(dir), entry->d_name);
	return e;
}

static int list_own(struct queue_registry *r, const char *path)
{
	for (size_t i = 0; i < r->count; i++)
		if (strcmp(r->paths[i], path) == 0)
			return 0;
	if (access(path, F_OK) < 0 || is_foreign(path))
		return 0;
	char *copy = strdup(path);
	return copy ? add_path(r, copy) : -ENOMEM;
}

int queue_registry_list(struct queue_registry *r, const char *own, struct gd_error *err)
{
	int e = list_registered(r);
	if (e == 0 && own)
		e = list_own(r, own);
	if (e < 0)
		return error_set(err, e, "cannot list the queues: %s",
			e == -EPERM
				? "your folder of queues, or one of its parent directories, belongs to another user or can be written by others; run 'gpuq doctor' for details"
				: error_words(e));
	if (r->count)
		qsort(r->paths, r->count, sizeof(*r->paths), compare);
	return 0;
}

void queue_registry_finish(struct queue_registry *r)
{
	for (size_t i = 0; i < r->count; i++)
		free(r->paths[i]);
	free(r->paths);
	*r = (struct queue_registry){0};
}
