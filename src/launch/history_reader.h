/* SPDX-License-Identifier: MIT */
/*
 * Reads launch.jsonl line by line. The only reader of that file.
 *
 * Skipped and counted as bad: a line that is not a JSON object, has no event, has a wrong
 * checksum or lacks one (history_checksum.h), or is refused by take(). Skipped without being counted: blank lines, and
 * events that this version does not know. Which members an event must have is up to take().
 */
#ifndef LAUNCH_HISTORY_READER_H
#define LAUNCH_HISTORY_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/json_read.h"

enum history_event {
	HISTORY_RUN = 1, /* a run begins */
	HISTORY_STARTED, /* a file got a folder for its result */
	HISTORY_DONE,    /* a file was processed */
	HISTORY_FAILED,  /* a file could not be processed */
};

/* Any bytes: as a string, or in base64 if they are not UTF-8. If both are present, the base64 counts. */
struct history_bytes {
	struct json_value plain, coded;
};

/* The members of a line, as slices of its text; a missing one has type 0. Valid during take() only. */
struct history_line {
	enum history_event event;
	uint64_t number; /* 1… */
	struct history_bytes input, file, output;
	struct json_value version, time, fingerprint, size, mtime, owner, node, gpu, audio, processing, error;
};

/* 0; -EBADMSG: a bad line; any other negative value ends the reading. */
typedef int history_take_fn(void *context, const struct history_line *line);

struct history_reader {
	history_take_fn *take;
	void *context;
	bool skip_unfinished; /* ignore a last line without a newline: it may be incomplete */
	bool checked;         /* -EPERM for a file that other users can write */
	/* Filled in by history_reader_run(). */
	bool checksums; /* of the last line: its run writes checksums */
	uint64_t bad_lines, first_bad_line;
	uint64_t size_read;    /* bytes */
	const char *objection; /* after -EPERM: why, see base/trust.h */
};

/* We do not write longer lines: the file was written by another user, or has a hole. */
#define HISTORY_MAX_LINE_BYTES    ((size_t)16 << 20)
#define HISTORY_MAX_HOLE_BYTES    ((off_t)64 << 20)
#define HISTORY_MAX_FOREIGN_BYTES ((uint64_t)256 << 20) /* of a file that others could have written */

/*
 * Opens the file for a report, which would publish any file that a link of another user leads to: such links are not
 * followed, -EPERM. Returns the descriptor or a negative errno value.
 */
int history_reader_open(const char *path);
/* 0, a negative errno value of reading the file, or what take() returned. -EFBIG: a line is too long, or the file has
 * many holes. -E2BIG: other users could have written it, and it is larger than HISTORY_MAX_FOREIGN_BYTES. */
int history_reader_run(struct history_reader *r, int fd);
/* The message for a code of these functions. */
const char *history_reader_words(int code);

/* The most bytes that history_bytes_decode() writes. */
size_t history_bytes_room(const struct history_bytes *b);
/* Writes no NUL at the end. Returns the number of bytes, or -EBADMSG if there is no such string. */
ssize_t history_bytes_decode(const struct history_bytes *b, char *out);

#endif
