/* SPDX-License-Identifier: MIT */
#include "queue/journal/environment.h"

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
#include "queue/journal/content_store.h"

/* The kernel accepts much less. */
#define MAX_BYTES (64 << 20)

int environment_save(int dir_fd, char *const *environment, char ret_name[HASH_TEXT], struct gd_error *err)
{
	cleanup_(text_finish) struct text t = {0};
	/* "_" is the last command of a shell: it differs each time, and it is private. */
	for (char *const *e = environment; *e; e++)
		if (strncmp(*e, "_=", 2) != 0)
			text_append(&t, *e, strlen(*e) + 1);
	if (text_error(&t))
		return error_set(err, -ENOMEM, "cannot store the environment: out of memory");
	int r = content_store_save(dir_fd, STORE_ENVIRONMENTS, text_string(&t), t.length, ret_name);
	return r < 0 ? error_set(err, r, "cannot store the environment: %s",
			       r == -EEXIST ? "its file in the journal's folder has different content" : error_words(r))
		     : 0;
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
