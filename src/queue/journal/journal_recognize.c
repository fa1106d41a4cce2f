/* SPDX-License-Identifier: MIT */
#include "queue/journal/journal_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "queue/journal/record.h"
#include "queue/journal/seal.h"

/*
 * How much of a file is read. The header of a journal has less than 100 bytes; a journal of the original gpu_dispatch
 * begins with a command.
 */
#define USUAL_LINE_BYTES   ((size_t)4096)
#define LONGEST_LINE_BYTES ((size_t)1 << 20)

/* What a crash may leave of the first append. */
#define HEADER_BEGIN     "{\"event\":\"journal\""
#define TORN_HEADER_MOST 256

static bool is_torn_header(const char *bytes, size_t size)
{
	size_t compared = size < sizeof(HEADER_BEGIN) - 1 ? size : sizeof(HEADER_BEGIN) - 1;
	return size < TORN_HEADER_MOST && memcmp(bytes, HEADER_BEGIN, compared) == 0;
}

/* What the first line is: 1, JOURNAL_ORIGINAL, 0 or -EPROTONOSUPPORT. */
static int recognize_line(char *line, size_t size, bool whole)
{
	struct record r;
	uint64_t n;
	size_t body = 0;
	bool sealed = seal_check(line, size, &n, &body) == 0;
	if (sealed)
		line[body] = '}';
	if (record_parse(line, sealed ? body + 1 : size, &r) < 0)
		return !whole && is_torn_header(line, size);
	if (r.event == EVENT_LEGACY && !sealed)
		return JOURNAL_ORIGINAL;
	if (r.event != EVENT_JOURNAL)
		return 0;
	/* A header that is damaged, or lacks its seal because it is torn, is still a header. */
	return !sealed && r.version == 1 ? -EPROTONOSUPPORT : 1;
}

/* Recognizes the first line, or the first `room` bytes of the file. */
static int recognize_begin(int fd, size_t room, bool *ret_cut)
{
	cleanup_(freep) char *bytes = malloc(room);
	ssize_t n = bytes ? pread(fd, bytes, room, 0) : -1;
	*ret_cut = false;
	if (n <= 0)
		return 0;
	/* A power cut before the first sync can leave zeros instead of the first lines. */
	char *begin = bytes, *end = bytes + n;
	while (begin < end && !*begin)
		begin++;
	const char *newline = memchr(begin, '\n', (size_t)(end - begin));
	*ret_cut = !newline && (size_t)n == room;
	if (begin == end)
		return 0;
	/* The line after the zeros need not be the first line. */
	size_t size = (size_t)((newline ? newline : end) - begin), body;
	uint64_t number;
	bool is_ours = begin > bytes && newline && seal_check(begin, size, &number, &body) == 0;
	return is_ours ? 1 : recognize_line(begin, size, newline);
}

int journal_recognize(int fd, off_t size)
{
	bool cut;
	if (size == 0)
		return 1;
	int r = recognize_begin(fd, USUAL_LINE_BYTES, &cut);
	return r == 0 && cut ? recognize_begin(fd, LONGEST_LINE_BYTES, &cut) : r;
}

bool journal_has_seal(int fd)
{
	cleanup_(freep) char *bytes = malloc(LONGEST_LINE_BYTES);
	ssize_t n = bytes ? pread(fd, bytes, LONGEST_LINE_BYTES, 0) : -1;
	uint64_t number;
	size_t body;
	if (n <= 0)
		return false;
	for (char *p = bytes, *end = bytes + n, *newline; (newline = memchr(p, '\n', (size_t)(end - p)));
		p = newline + 1)
		if (seal_check(p, (size_t)(newline - p), &number, &body) == 0)
			return true;
	return false;
}

static int compare_queue(int fd, size_t room, const char *queue, bool *ret_cut)
{
	cleanup_(freep) char *bytes = malloc(room);
	uint64_t n;
	size_t body;
	struct record r;
	if (!bytes)
		return -ENOMEM;
	ssize_t size = pread(fd, bytes, room, 0);
	if (size < 0)
		return -errno;
	char *newline = memchr(bytes, '\n', (size_t)size);
	*ret_cut = !newline && (size_t)size == room;
	if (!newline || seal_check(bytes, (size_t)(newline - bytes), &n, &body) < 0)
		return -ENODATA;
	bytes[body] = '}';
	if (record_parse(bytes, body + 1, &r) < 0 || r.event != EVENT_JOURNAL)
		return -ENODATA;
	return r.queue.type && json_is(&r.queue, queue);
}

int journal_compare_queue(int fd, const char *queue)
{
	bool cut = false;
	int r = compare_queue(fd, USUAL_LINE_BYTES, queue, &cut);
	return r == -ENODATA && cut ? compare_queue(fd, LONGEST_LINE_BYTES, queue, &cut) : r;
}

int journal_refuse_folder(const struct journal *j, struct gd_error *err)
{
	return error_set(err, -EPERM,
		"refusing to use '%s': directory '%s' belongs to another journal, so this one may have been put there by others; "
		"restore yours, or move the directory away; with --trust, this journal is used and its jobs run",
		j->path, j->dir_path);
}

int journal_refuse_version(const struct journal *j, struct gd_error *err)
{
	return error_set(err, -EPROTONOSUPPORT,
		"cannot open journal '%s': it has version 1, which was never released; move it away", j->path);
}

bool journal_recognize_zeros(int fd, off_t size)
{
	char bytes[USUAL_LINE_BYTES];
	if (size >= (off_t)sizeof(bytes))
		return false;
	ssize_t n = pread(fd, bytes, sizeof(bytes), 0);
	for (ssize_t i = 0; i < n; i++)
		if (bytes[i])
			return false;
	return n == size;
}

bool journal_recognize_archive(int fd, off_t size)
{
	static const char begin[] = "{\"event\":";
	char bytes[sizeof(begin) - 1];
	bool cut;
	if (size == 0 || recognize_begin(fd, LONGEST_LINE_BYTES, &cut) > 0)
		return true;
	size_t compared = (size_t)size < sizeof(bytes) ? (size_t)size : sizeof(bytes);
	return pread(fd, bytes, compared, 0) == (ssize_t)compared && memcmp(bytes, begin, compared) == 0;
}

int journal_refuse_unrecognized(const struct journal *j, struct gd_error *err)
{
	return error_set(err, -EINVAL,
		"refusing to change '%s': it is not a journal of gpuq; name another file with --jobs-file", j->path);
}
