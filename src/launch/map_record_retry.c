/* SPDX-License-Identifier: MIT */
/*
 * Retries failed items: removes their lines from the record. A file is replaced as a whole, by rename, so that a killed
 * run leaves the old or the new file; in both, no result is missing or duplicated.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/line_reader.h"
#include "launch/map_origin.h"
#include "launch/map_record.h"

#define WRITE_BYTES ((size_t)256 << 10)

static void forget(struct map_record *r, uint64_t number)
{
	uint64_t bit = UINT64_C(1) << (number % 64);
	if (!(r->bad[number / 64] & bit))
		return; /* the item has a result in the output, or was already cleared */
	r->done[number / 64] &= ~bit;
	r->bad[number / 64] &= ~bit;
	r->count--;
	r->failed--;
}

/* The bits of failed items stay unchanged until the new file is in place. */
static int copy_results(const struct map_file *f, int to, uint64_t *ret_size, uint64_t *ret_failed)
{
	cleanup_(line_reader_finish) struct line_reader reader = {.fd = f->fd, .max_bytes = MAP_RECORD_LINE_MAX};
	cleanup_(text_finish) struct text out = {0};
	int e = lseek(f->fd, 0, SEEK_SET) < 0 ? -errno : 0;
	*ret_size = *ret_failed = 0;
	while (e == 0) {
		const char *line;
		struct map_record_line read;
		ssize_t n = line_reader_next(&reader, &line);
		if (n <= 0) {
			e = (int)n;
			break;
		}
		e = map_record_read_line(line, (size_t)n, &read);
		if (e == 0 && read.failed)
			++*ret_failed;
		else if (e == 0)
			text_append(&out, line, (size_t)n);
		if (e == 0 && out.length >= WRITE_BYTES) {
			*ret_size += out.length;
			e = text_error(&out) ? text_error(&out) : file_write_all(to, out.data, out.length);
			text_clear(&out);
		}
	}
	*ret_size += out.length;
	return e < 0 ? e : text_error(&out) ? text_error(&out) : file_write_all(to, out.data, out.length);
}

static int forget_failed_of(struct map_record *r, const struct map_file *f)
{
	cleanup_(line_reader_finish) struct line_reader reader = {.fd = f->fd, .max_bytes = MAP_RECORD_LINE_MAX};
	const char *line;
	ssize_t n;
	if (lseek(f->fd, 0, SEEK_SET) < 0)
		return -errno;
	while ((n = line_reader_next(&reader, &line)) > 0) {
		struct map_record_line read;
		if (map_record_read_line(line, (size_t)n, &read) == 0 && read.failed)
			forget(r, read.number);
	}
	return (int)n;
}

/* A draft next to the file. In a sticky directory another user may have taken its name: then use another name. */
static int open_draft(const struct map_file *f, struct text *name)
{
	const int flags = O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
	uint64_t number;
	text_appendf(name, ".%s.gpuq-draft", f->entry);
	if (text_error(name))
		return text_error(name);
	(void)unlinkat(f->dir_fd, text_string(name), 0); /* left by a killed run; the lock excludes other runs */
	int fd = openat(f->dir_fd, text_string(name), flags, 0600);
	if (fd >= 0 || errno != EEXIST)
		return fd < 0 ? -errno : fd;
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -errno;
	text_appendf(name, "-%016" PRIx64, number);
	if (text_error(name))
		return text_error(name);
	fd = openat(f->dir_fd, text_string(name), flags, 0600);
	return fd < 0 ? -errno : fd;
}

static int replace(struct map_record *r, struct map_file *f)
{
	uint64_t size, failed;
	cleanup_(text_finish) struct text draft = {0};
	cleanup_(closep) int fd = open_draft(f, &draft);
	if (fd < 0)
		return fd;
	const char *name = text_string(&draft);
	int e = copy_results(f, fd, &size, &failed);
	if (e == 0 && failed > 0) {
		map_origin_add(r, fd);
		file_copy_access(f->fd, fd);
		/* Sync it to the disk before it replaces the old file. */
		if (fdatasync(fd) < 0)
			e = -errno;
		else if (renameat(f->dir_fd, name, f->dir_fd, f->entry) < 0)
			e = -errno;
		else
			e = forget_failed_of(r, f);
	}
	if (e < 0 || failed == 0) {
		(void)unlinkat(f->dir_fd, name, 0);
		return e;
	}
	close(f->fd);
	f->fd = take_fd(&fd);
	f->size = size;
	return 0;
}

int map_record_retry_failed(struct map_record *r, struct gd_error *err)
{
	struct map_file *files[] = {&r->output, &r->errors};
	for (size_t i = 0; i < 2; i++) {
		int e = files[i]->regular && r->failed + r->outdated > 0 ? replace(r, files[i]) : 0;
		if (e < 0)
			return error_set(err, e, "cannot remove failed items from '%s' to retry them: %s",
				files[i]->name, error_words(e));
	}
	return 0;
}
