/* SPDX-License-Identifier: MIT */
#include "base/line_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"

#define FIRST_ROOM ((size_t)64 * 1024)

void line_reader_finish(struct line_reader *r)
{
	free(r->buf);
	*r = (struct line_reader){.fd = -1, .at_end = true};
}

/* Moves the unread bytes to the front of the buffer and reads more after them. Enlarges a full buffer. */
static int read_more(struct line_reader *r)
{
	size_t have = r->end - r->begin;
	if (have >= r->max_bytes)
		return -EFBIG;
	if (have > 0)
		memmove(r->buf, r->buf + r->begin, have);
	r->begin = 0;
	r->end = have;
	if (have == r->capacity) {
		size_t room = have ? have * 2 : FIRST_ROOM;
		if (array_reserve(r->buf, &r->capacity, room < r->max_bytes ? room : r->max_bytes) < 0)
			return -ENOMEM;
	}
	for (;;) {
		ssize_t n = read(r->fd, r->buf + have, r->capacity - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		r->end += (size_t)n;
		r->at_end = n == 0;
		return 0;
	}
}

ssize_t line_reader_next(struct line_reader *r, const char **ret)
{
	size_t searched = 0;
	for (;;) {
		size_t have = r->end - r->begin;
		/* No buffer before the first read, and NULL + 0 is undefined. */
		const char *line = r->buf ? r->buf + r->begin : "";
		const char *newline = have > searched ? memchr(line + searched, '\n', have - searched) : NULL;
		if (newline || r->at_end) {
			size_t length = newline ? (size_t)(newline - line) + 1 : have;
			if (length > r->max_bytes)
				return -EFBIG;
			r->begin += length;
			*ret = line;
			return (ssize_t)length;
		}
		searched = have;
		int e = read_more(r);
		if (e < 0)
			return e;
	}
}
