/* SPDX-License-Identifier: MIT */
#include "queue/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

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
	if (faccessat(dir_fd, path, F_OK, 0) < 0) {
		int r = write_new(dir_fd, path, &t);
		if (r < 0)
			return error_set(err, r, "keeping the environment: %s", error_words(r));
	}
	memcpy(ret_name, name, HASH_TEXT);
	return 0;
}

int environment_load(int dir_fd, const char *name, char **ret, size_t *ret_size)
{
	char path[HASH_TEXT + 8];
	if (strlen(name) >= HASH_TEXT || strchr(name, '/'))
		return -EINVAL;
	snprintf(path, sizeof(path), "env/%s", name);
	cleanup_(closep) int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
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
