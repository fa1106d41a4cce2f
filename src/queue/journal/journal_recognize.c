/* SPDX-License-Identifier: MIT */
#include "queue/journal/journal_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "queue/journal/record.h"

/*
 * How much of a file is read. The line that every journal begins with has below 100 bytes; a journal of the first
 * gpu_dispatch begins with a command.
 */
#define USUAL_LINE_BYTES   ((size_t)4096)
#define LONGEST_LINE_BYTES ((size_t)1 << 20)

/* What a crash can have left of the first append. */
#define HEADER_BEGIN     "{\"event\":\"journal\""
#define TORN_HEADER_MOST 256

static bool is_torn_header(const char *bytes, size_t size)
{
	size_t compared = size < sizeof(HEADER_BEGIN) - 1 ? size : sizeof(HEADER_BEGIN) - 1;
	return size < TORN_HEADER_MOST && memcmp(bytes, HEADER_BEGIN, compared) == 0;
}

/* The first line, or as much of the file as `room` takes. */
static bool begins_as_journal(int fd, size_t room, bool *ret_cut)
{
	struct record r;
	cleanup_(freep) char *bytes = malloc(room);
	ssize_t n = bytes ? pread(fd, bytes, room, 0) : -1;
	*ret_cut = false;
	if (n <= 0)
		return false;
	const char *newline = memchr(bytes, '\n', (size_t)n);
	size_t length = newline ? (size_t)(newline - bytes) : (size_t)n;
	*ret_cut = !newline && (size_t)n == room;
	if (record_parse(bytes, length, &r) == 0)
		return r.event == EVENT_JOURNAL || r.event == EVENT_LEGACY;
	return !newline && is_torn_header(bytes, length);
}

bool journal_recognize(int fd, off_t size)
{
	bool cut;
	if (size == 0 || begins_as_journal(fd, USUAL_LINE_BYTES, &cut))
		return true;
	return cut && begins_as_journal(fd, LONGEST_LINE_BYTES, &cut);
}

int journal_refuse_unrecognized(const struct journal *j, struct gd_error *err)
{
	return error_set(err, -EINVAL,
		"refusing to change '%s': it is not a journal of gpuq; name another with --jobs-file", j->path);
}
