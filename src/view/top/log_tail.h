/* SPDX-License-Identifier: MIT */
/*
 * The end of a log, as readable lines: text overwritten after a carriage return (progress bars), colors and cursor
 * movements are removed. Only the last megabyte of a long log is kept. Start from {0}.
 */
#ifndef VIEW_TOP_LOG_TAIL_H
#define VIEW_TOP_LOG_TAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

#define LOG_TAIL_BYTES ((size_t)1 << 20)

struct log_tail {
	struct text bytes;
	size_t *starts; /* offset of each line in `bytes`; the last line may be incomplete or empty */
	size_t num_lines, capacity;
	uint64_t num_dropped; /* lines dropped so far, which is the number of the first kept line */
	bool cut;             /* begins in the middle of the log */
};

void log_tail_finish(struct log_tail *l);
/* 0 or -ENOMEM. */
int log_tail_append(struct log_tail *l, const void *data, size_t size);

/* The number of kept lines; an empty last line does not count. */
size_t log_tail_lines(const struct log_tail *l);
/* Appends the kept line i to t, made readable. */
void log_tail_line(const struct log_tail *l, size_t i, struct text *t);

#endif
