/* SPDX-License-Identifier: MIT */
/*
 * Writes lines to a descriptor whose reader may be slow or may not read at all. Lines wait in memory, up to 1 MiB;
 * further lines are dropped, and a line reports how many. Start from {0}; text_finish(&o->waiting) releases the memory.
 */
#ifndef BASE_LINE_OUTPUT_H
#define BASE_LINE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

struct line_output {
	struct text waiting;
	uint64_t left_out; /* lines that were dropped because too many waited */
};

/* Adds complete lines, and writes as much as possible without waiting. */
void line_output_add(struct line_output *o, int fd, const char *lines, size_t size);
/*
 * Writes as much as possible without waiting. If `wait` is given, writes everything: `wait` blocks until fd is
 * writable, and the rest is dropped when it returns false.
 */
void line_output_flush(struct line_output *o, int fd, bool (*wait)(void *context, int fd), void *context);

#endif
