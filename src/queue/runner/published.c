/* SPDX-License-Identifier: MIT */
#include "queue/runner/published.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/json_put.h"
#include "base/json_read.h"
#include "base/trust.h"
#include "base/utf8.h"
#include "queue/schedule/scheduler_inputs.h"

#define VERSION  1
#define MAX_SIZE (16 << 20)
/* Limit for the file of another user, who may have filled it with claims: each is compared with each GPU. */
#define MAX_FOREIGN_SIZE (1 << 20)
#define DRAFT            PUBLISHED_FILE ".new"

void published_format(struct text *t, const struct published *p, const struct scheduler *s)
{
	json_open(t, NULL, '{');
	json_put_int(t, "version", VERSION);
	json_put_int(t, "pid", p->pid);
	json_put_string(t, "host", p->host);
	json_put_string(t, "pause", p->pause);
	if (*p->note)
		json_put_string(t, "note", p->note);
	scheduler_inputs_write(s, "scheduler", t);
	json_close(t, '}');
	text_append_char(t, '\n');
}

int published_write(int dir_fd, const char *data, size_t size)
{
	(void)unlinkat(dir_fd, DRAFT, 0);
	cleanup_(closep) int fd = openat(dir_fd, DRAFT, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	int r = file_write_all(fd, data, size);
	if (r == 0 && renameat(dir_fd, DRAFT, dir_fd, PUBLISHED_FILE) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(dir_fd, DRAFT, 0);
	return r;
}

static int read_word(const struct json_value *v, char *ret, size_t room)
{
	if (v->type != JSON_STRING || v->size >= room)
		return -EBADMSG;
	cleanup_(freep) char *bytes = malloc(room);
	if (!bytes)
		return -ENOMEM;
	/* Another user may have written the file, and the text is shown on terminals. */
	utf8_copy_line(ret, room, bytes, json_unescape(v, bytes));
	return 0;
}

int published_parse(const char *data, size_t size, struct published *ret, struct scheduler *s)
{
	struct json_cursor c;
	struct json_value key, value, inputs = {0};
	struct published p = {0};
	int64_t number = 0, version = 0;
	int r = json_begin(&c, data, size);
	while (r == 0 && (r = json_next_member(&c, &key, &value)) > 0) {
		r = 0;
		if (json_is(&key, "scheduler"))
			inputs = value;
		else if (json_is(&key, "version"))
			r = json_to_int64(&value, &version);
		else if (json_is(&key, "pid") && (r = json_to_int64(&value, &number)) == 0)
			p.pid = number > 0 && number <= INT_MAX ? (pid_t)number : 0;
		else if (json_is(&key, "host"))
			r = read_word(&value, p.host, sizeof(p.host));
		else if (json_is(&key, "pause"))
			r = read_word(&value, p.pause, sizeof(p.pause));
		else if (json_is(&key, "note"))
			r = read_word(&value, p.note, sizeof(p.note));
	}
	if (r == 0)
		r = json_end(&c);
	if (r == 0 && version != VERSION)
		r = -EBADMSG;
	if (r == 0)
		r = scheduler_inputs_read(s, &inputs);
	if (r == 0)
		*ret = p;
	return r;
}

/* Whether only the owner of the directory, or root, could have written the file. */
static bool is_trusted(const struct stat *file, const struct stat *dir)
{
	return S_ISREG(file->st_mode) && (file->st_uid == dir->st_uid || file->st_uid == 0) &&
	       !(file->st_mode & (S_IWGRP | S_IWOTH));
}

int published_read(int dir_fd, struct published *ret, struct scheduler *s)
{
	struct stat st, dir;
	cleanup_(closep) int fd = file_open_regular(dir_fd, PUBLISHED_FILE, O_NOFOLLOW);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0 || fstat(dir_fd, &dir) < 0)
		return -errno;
	if (!is_trusted(&st, &dir))
		return -EPERM;
	if (st.st_size > (st.st_uid == 0 || trust_is_user(st.st_uid) ? MAX_SIZE : MAX_FOREIGN_SIZE))
		return -EFBIG;
	cleanup_(freep) char *data = malloc((size_t)st.st_size + 1);
	if (!data)
		return -ENOMEM;
	ssize_t n = file_read_full(fd, data, (size_t)st.st_size);
	int r = n < 0 ? (int)n : published_parse(data, (size_t)n, ret, s);
	if (r == 0)
		ret->written_ms = file_mtime_ms(&st);
	return r;
}

bool published_is_cluster(int dir_fd)
{
	struct jobs none;
	struct published p;
	struct scheduler *s = NULL;
	jobs_init(&none);
	bool is = scheduler_create(&none, &s) == 0 && published_read(dir_fd, &p, s) == 0 && scheduler_is_cluster(s);
	scheduler_destroy(s);
	jobs_finish(&none);
	return is;
}
