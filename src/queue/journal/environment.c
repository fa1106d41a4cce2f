/* SPDX-License-Identifier: MIT */
#include "queue/journal/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
	mode_t mask = umask(077);
	umask(mask);
	/* "_" is the last command of a shell: it differs each time, and it is private. */
	for (char *const *e = environment; *e; e++)
		if (strncmp(*e, "_=", 2) != 0 && strncmp(*e, ENVIRONMENT_UMASK "=", sizeof(ENVIRONMENT_UMASK)) != 0)
			text_append(&t, *e, strlen(*e) + 1);
	text_appendf(&t, ENVIRONMENT_UMASK "=%04o", (unsigned)mask);
	text_append_char(&t, '\0');
	if (text_error(&t))
		return error_set(err, -ENOMEM, "cannot store the environment: out of memory");
	int r = content_store_save(dir_fd, STORE_ENVIRONMENTS, text_string(&t), t.length, ret_name);
	return r < 0 ? error_set(err, r, "cannot store the environment: %s",
			       r == -EEXIST ? "its file in the journal's folder has different content" : error_words(r))
		     : 0;
}

static int open_environment(int dir_fd, const char *name)
{
	if (strlen(name) >= HASH_TEXT || strchr(name, '/'))
		return -EINVAL;
	/* O_NOFOLLOW applies only to the last component of a path. */
	cleanup_(closep) int fd = openat(dir_fd, STORE_ENVIRONMENTS, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : file_open_regular(fd, name, O_NOFOLLOW);
}

int environment_load(int dir_fd, const char *name, uid_t owner, char **ret, size_t *ret_size)
{
	cleanup_(closep) int fd = open_environment(dir_fd, name);
	struct stat st;
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (owner != ENVIRONMENT_OF_ANYBODY && st.st_uid != owner)
		return -EPERM;
	if (st.st_size > MAX_BYTES)
		return -EFBIG;
	cleanup_(freep) char *data = malloc((size_t)st.st_size + 1);
	if (!data)
		return -ENOMEM;
	ssize_t n = file_read_full(fd, data, (size_t)st.st_size);
	if (n != st.st_size)
		return n < 0 ? (int)n : -EIO;
	data[n] = '\0';
	*ret = take_ptr(data);
	*ret_size = (size_t)n;
	return 0;
}
