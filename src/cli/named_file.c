/* SPDX-License-Identifier: MIT */
#include "cli/named_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/trust.h"

#define FLAGS (O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)

/* Below a folder that no link of another user leads to. */
static int open_real(const char *path, int *ret_fd, struct gd_error *err)
{
	const char *slash = strrchr(path, '/');
	cleanup_(freep) char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	cleanup_(closep) int dir_fd = -1;
	if (!folder)
		return error_set(err, -ENOMEM, "out of memory");
	int r = trust_open_directory(folder, false, &dir_fd, err);
	if (r < 0)
		return r;
	int fd = openat(dir_fd, slash ? slash + 1 : path, FLAGS | O_CREAT | O_NOFOLLOW, 0666);
	if (fd < 0)
		return error_set(err, -errno, "%s", error_words(-errno));
	*ret_fd = fd;
	return 0;
}

/* What a link in /proc, such as /dev/stdout, leads to need not have a path. */
static int open_special(const char *path, int *ret_fd, struct gd_error *err)
{
	struct stat st;
	cleanup_(closep) int fd = open(path, FLAGS);
	if (fd < 0 && errno == ENXIO)
		return error_set(err, -ENXIO, "nobody reads from it");
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, -errno, "%s", error_words(-errno));
	if (S_ISREG(st.st_mode))
		return error_set(err, -EPERM, "it has just been replaced");
	*ret_fd = take_fd(&fd);
	return 0;
}

int named_file_open(const char *path, int *ret_fd, struct gd_error *err)
{
	cleanup_(freep) char *real = NULL;
	cleanup_(closep) int fd = -1;
	bool foreign;
	struct stat st;
	int r = trust_follow_links(path, &real, &foreign);
	if (r < 0)
		return error_set(err, r, "%s", error_words(r));
	if (foreign)
		return error_set(err, -EPERM, "it is a symbolic link of another user");
	bool is_special = stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
	r = is_special ? open_special(path, &fd, err) : open_real(real, &fd, err);
	if (r < 0)
		return r;
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0)
		return error_set(err, -errno, "%s", error_words(-errno));
	*ret_fd = take_fd(&fd);
	return 0;
}
