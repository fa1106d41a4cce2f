/* SPDX-License-Identifier: MIT */
#include "cli/web_opener.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/state_dir.h"
#include "base/text.h"
#include "base/trust.h"

static int open_runtime_dir(int *ret_fd)
{
	const char *path = getenv("XDG_RUNTIME_DIR");
	struct stat st;
	cleanup_(closep) int fd = -1;
	if (!path || *path != '/')
		return -ENOENT;
	int r = trust_open_directory(path, true, &fd, NULL);
	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!trust_is_user(st.st_uid) || trust_objection(fd))
		return -EPERM;
	*ret_fd = take_fd(&fd);
	return 0;
}

static char *make_url(int dir_fd, const char *name)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
	char path[PATH_MAX];
	cleanup_(text_finish) struct text url = {0};
	if (file_path(dir_fd, path) < 0)
		return NULL;
	text_append_string(&url, "file://");
	for (const char *p = path; *p; p++) {
		if (strchr(plain, *p))
			text_append_char(&url, *p);
		else
			text_appendf(&url, "%%%02X", (unsigned)(unsigned char)*p);
	}
	text_appendf(&url, "/%s", name);
	return text_error(&url) ? NULL : strdup(text_string(&url));
}

/* Neither an address nor a token contains characters that HTML interprets. */
static int put_html(int fd, const char *address, const char *token)
{
	cleanup_(text_finish) struct text t = {0};
	text_appendf(&t,
		"<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
		"<meta name=\"referrer\" content=\"no-referrer\">\n"
		"<meta http-equiv=\"refresh\" content=\"0; url=%s#token=%s\">\n"
		"<title>gpuq web</title>\n<a href=\"%s#token=%s\">Open the page</a>\n</html>\n",
		address, token, address, token);
	int r = text_error(&t);
	return r < 0 ? r : file_write_all(fd, text_string(&t), t.length);
}

/* No other user can create entries in the directory, so a file with this name is our own. */
static int put_file(int dir_fd, const char *address, const char *token, struct web_opener *o)
{
	struct stat st;
	if (unlinkat(dir_fd, o->name, 0) < 0 && errno != ENOENT)
		return -errno;
	cleanup_(closep) int fd = openat(dir_fd, o->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	int r = fstat(fd, &st) < 0 ? -errno : put_html(fd, address, token);
	if (r < 0) {
		unlinkat(dir_fd, o->name, 0);
		return r;
	}
	o->device = st.st_dev;
	o->number = st.st_ino;
	return 0;
}

int web_opener_create(const char *address, const char *token, struct web_opener *o)
{
	const char *colon = strrchr(address, ':');
	cleanup_(closep) int dir_fd = -1;
	int r = open_runtime_dir(&dir_fd);
	if (r < 0)
		r = state_dir_open_host(true, &dir_fd);
	if (r < 0)
		return r;
	snprintf(o->name, sizeof(o->name), "gpuq-web-%lu.html", colon ? strtoul(colon + 1, NULL, 10) : 0);
	o->url = make_url(dir_fd, o->name);
	if (!o->url)
		return -ENOMEM;
	r = put_file(dir_fd, address, token, o);
	if (r < 0)
		free(take_ptr(o->url));
	else
		o->dir_fd = take_fd(&dir_fd);
	return r;
}

void web_opener_remove(struct web_opener *o)
{
	struct stat st;
	if (o->dir_fd >= 0 && fstatat(o->dir_fd, o->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == o->device &&
		st.st_ino == o->number)
		unlinkat(o->dir_fd, o->name, 0);
	close_fd(&o->dir_fd);
	free(take_ptr(o->url));
}
