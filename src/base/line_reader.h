/* SPDX-License-Identifier: MIT */
/*
 * Lines of a file, read in large pieces, of a limited length.
 *
 * A file of another user, or one with a hole, can have a line that fills the memory: a line that is longer than
 * max_bytes is an error, and nothing is read after it.
 */
#ifndef BASE_LINE_READER_H
#define BASE_LINE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Start from {.fd = …, .max_bytes = …}; the descriptor stays the caller's. */
struct line_reader {
	int fd;
	size_t max_bytes; /* of a line with its newline */
	char *buf;
	size_t capacity, begin, end; /* bytes begin…end of the buffer are unread */
	bool at_end;
};

void line_reader_finish(struct line_reader *r);

/*
 * The length of the next line with its newline, which the last line may lack; 0 at the end of the file, -EFBIG for a
 * line that is too long, or another negative errno value. The line is valid until the next call and not NUL-terminated.
 */
ssize_t line_reader_next(struct line_reader *r, const char **ret);

#endif
