/* SPDX-License-Identifier: MIT */
/*
 * The end of a log, in lines as they would be read: what a carriage return wrote over
 * (progress bars) is gone, colours and cursor movements are taken out. Of a long log only
 * the last megabyte is kept. Start from {0}.
 */
#ifndef VIEW_TOP_LOG_TAIL_H
#define VIEW_TOP_LOG_TAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

#define LOG_TAIL_BYTES ((size_t)1 << 20)

struct log_tail {
	struct text bytes;
	size_t *starts; /* of each line in bytes; the last one may be unfinished, or empty */
	size_t num_lines, capacity;
	uint64_t num_dropped; /* lines that were there once; the first kept one has this number */
	bool cut;             /* begins in the middle of the log */
};

void log_tail_finish(struct log_tail *l);
/* 0 or -ENOMEM. */
int log_tail_append(struct log_tail *l, const void *data, size_t size);

/* How many there are; an empty one at the end does not count. */
size_t log_tail_lines(const struct log_tail *l);
/* Line i of those kept, made readable, appended to t. */
void log_tail_line(const struct log_tail *l, size_t i, struct text *t);

#endif
