/* SPDX-License-Identifier: MIT */
/*
 * Reads the lines of a file, which have a maximum length, in large blocks.
 *
 * A file of another user, or one with a hole, can have a line that fills the memory. So a line that is longer than
 * max_bytes is an error, and nothing is read after it.
 */
#ifndef BASE_LINE_READER_H
#define BASE_LINE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Start from {.fd = …, .max_bytes = …}; the caller keeps ownership of the descriptor. */
struct line_reader {
	int fd;
	size_t max_bytes; /* of a line with its newline */
	char *buf;
	size_t capacity, begin, end; /* bytes begin…end of the buffer are unread */
	bool at_end;
};

void line_reader_finish(struct line_reader *r);

/*
 * Returns the length of the next line with its newline, which the last line may lack; 0 at the end of the file, -EFBIG
 * for a line that is too long, or another negative errno value. The line is valid until the next call and not
 * NUL-terminated.
 */
ssize_t line_reader_next(struct line_reader *r, const char **ret);

#endif
