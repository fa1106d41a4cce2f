/* SPDX-License-Identifier: MIT */
#include "slurm/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/line_reader.h"
#include "queue/journal/seal.h"

#define LONGEST_LINE ((size_t)1 << 20)

static int open_directory(int dir_fd)
{
	int fd = openat(dir_fd, OUTBOX_DIRECTORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

static int file_name(const char *name, char ret[NAME_MAX + 1])
{
	if (!*name || *name == '.' || strchr(name, '/'))
		return -EINVAL;
	int n = snprintf(ret, NAME_MAX + 1, "%s.jsonl", name);
	return n > NAME_MAX ? -ENAMETOOLONG : 0;
}

int outbox_create(struct pilot_outbox *o, int dir_fd, const char *name, const char *header)
{
	char file[NAME_MAX + 1];
	int r = file_name(name, file);
	if (r < 0)
		return r;
	if (mkdirat(dir_fd, OUTBOX_DIRECTORY, 0700) < 0 && errno != EEXIST)
		return -errno;
	cleanup_(closep) int directory = open_directory(dir_fd);
	if (directory < 0)
		return directory;
	cleanup_(closep) int fd = openat(directory, file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	struct pilot_outbox made = {.fd = fd, .next = 1};
	r = outbox_append(&made, header, strlen(header));
	/* Sync its name, too, and that of the directory. */
	if (r == 0 && (fsync(directory) < 0 || fsync(dir_fd) < 0))
		r = -errno;
	if (r < 0) {
		text_finish(&made.line);
		return r;
	}
	*o = made;
	o->fd = take_fd(&fd);
	return 0;
}

void outbox_close(struct pilot_outbox *o)
{
	closep(&o->fd);
	text_finish(&o->line);
	*o = OUTBOX_NONE;
}

/* Returns the number of lines. */
static uint64_t seal_lines(struct text *ret, const char *lines, size_t size, uint64_t first)
{
	uint64_t n = first;
	for (const char *p = lines, *end = lines + size; p < end; n++) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		size_t length = (size_t)((newline ? newline : end) - p);
		seal_append(ret, p, length, n);
		p += length + 1;
	}
	return n - first;
}

int outbox_append(struct pilot_outbox *o, const char *lines, size_t size)
{
	text_clear(&o->line);
	uint64_t count = seal_lines(&o->line, lines, size, o->next);
	int r = text_error(&o->line);
	if (r < 0) {
		text_finish(&o->line);
		return r;
	}
	if (lseek(o->fd, o->size, SEEK_SET) < 0)
		return -errno;
	r = file_write_all(o->fd, o->line.data, o->line.length);
	if (r == 0 && fsync(o->fd) < 0)
		r = -errno;
	if (r < 0) {
		(void)!ftruncate(o->fd, o->size); /* if this fails, the next attempt overwrites the rest */
		return r;
	}
	o->size += (int64_t)o->line.length;
	o->next += count;
	return 0;
}

/* 0, 1 (an incomplete last line) or a negative errno value. Also -EBADMSG if lines before this one are missing. */
static int take_line(const char *line, size_t size, uint64_t *last, outbox_fn *fn, void *context)
{
	uint64_t n;
	size_t body;
	if (line[size - 1] != '\n')
		return 1;
	int r = seal_check(line, size - 1, &n, &body);
	if (r < 0)
		return r;
	if (n <= *last)
		return -EBADMSG;
	bool missing = n != *last + 1;
	*last = n;
	cleanup_(text_finish) struct text t = {0};
	text_append(&t, line, body);
	text_append_char(&t, '}');
	r = text_error(&t);
	if (r == 0 && n > 1)
		r = fn(context, t.data, t.length);
	return r == 0 && missing ? -EBADMSG : r;
}

int outbox_read(int dir_fd, const char *name, outbox_fn *fn, void *context)
{
	char file[NAME_MAX + 1];
	int r = file_name(name, file);
	if (r < 0)
		return r;
	cleanup_(closep) int directory = open_directory(dir_fd);
	if (directory < 0)
		return directory;
	cleanup_(closep) int fd = file_open_regular(directory, file, O_NOFOLLOW);
	if (fd < 0)
		return fd;
	cleanup_(line_reader_finish) struct line_reader reader = {.fd = fd, .max_bytes = LONGEST_LINE};
	const char *line;
	ssize_t size;
	uint64_t last = 0;
	bool damaged = false;
	r = 0;
	while ((r == 0 || r == -EBADMSG) && (size = line_reader_next(&reader, &line)) > 0) {
		r = take_line(line, (size_t)size, &last, fn, context);
		damaged = damaged || r == -EBADMSG;
	}
	if (r < 0 && r != -EBADMSG)
		return r;
	if (damaged || size == -EFBIG)
		return -EBADMSG;
	if (size < 0)
		return (int)size;
	return last == 0 ? -ENODATA : 0;
}
