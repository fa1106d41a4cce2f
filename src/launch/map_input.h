/* SPDX-License-Identifier: MIT */
/*
 * The items of gpuq map: the lines of a file, a pipe or standard input.
 *
 * An item's number is that of its line, from 1. In JSON, lines with nothing but white space have no item. A line that
 * cannot be an item (invalid JSON, not UTF-8, too long) is an item that fails, with the reason: nothing is skipped
 * silently, and the other items continue. The last line needs no newline.
 *
 * If a file grows while it is read, only lines that begin within its original size count, so reading ends even if the
 * file grows faster than it is read. Another user may be appending to it, and holes cost that user nothing. If it
 * becomes shorter, an incomplete last line is not an item.
 */
#ifndef LAUNCH_MAP_INPUT_H
#define LAUNCH_MAP_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "gpu_dispatch.h"

#define MAP_LINE_MAX ((size_t)8 << 20) /* bytes of a line */

struct map_input {
	const char *name; /* for messages: the path, or "standard input" */
	int fd;
	bool lines;       /* an item is a line of text, not a JSON value */
	bool regular;     /* a file that can be read again */
	bool replaceable; /* another user can make the path lead elsewhere, or may have moved the file there */
	uint64_t size;
	uint64_t limit;  /* of `taken`; 0: the input has no size, and is read to its end */
	uint64_t number; /* of the last line taken */
	uint64_t taken;  /* bytes of all lines taken */
	char *buf;
	size_t capacity, begin, end, searched;
	bool skipping; /* skip the rest of an overlong line */
	bool at_end;   /* read(2) has returned 0 */
};

struct map_line {
	uint64_t number;
	const char *text; /* without white space around it; valid until the next call */
	size_t size;
	uint64_t bytes;  /* of the line in the file */
	uint32_t check;  /* identifies the item: see map_record.h */
	const char *bad; /* why it cannot be an item, or NULL */
};

/* "-": standard input. -EPERM: see named_file_find(), also for `trust`; or a device that another user may have put
 * there. */
int map_input_open(struct map_input *in, const char *path, bool lines, bool trust, struct gd_error *err);
void map_input_finish(struct map_input *in);
/* Back to the first line. Regular files only. */
int map_input_rewind(struct map_input *in);

enum map_input_event {
	MAP_INPUT_LINE = 1,
	MAP_INPUT_MORE, /* read more first */
	MAP_INPUT_END,
};

/* What to compute for a line, besides its text. */
enum map_input_want {
	MAP_INPUT_COUNT = 0,
	MAP_INPUT_CHECK, /* `check` */
	MAP_INPUT_ITEM,  /* `check` and `bad` */
};

/* The next line in the buffer. Does not read. */
enum map_input_event map_input_next(struct map_input *in, enum map_input_want want, struct map_line *ret);
/* Reads once. Blocks if there is no data yet; poll in->fd first. 0, or a negative errno value. */
int map_input_read(struct map_input *in);

#endif
