/* SPDX-License-Identifier: MIT */
/*
 * Lines for people, on a descriptor whose reader may be slow or not read at all. Lines wait in memory, up to 1 MiB;
 * further lines are dropped, and a line says how many. Start from {0}; text_finish(&o->waiting) releases it.
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

/* Adds complete lines, and writes what fits without waiting. */
void line_output_add(struct line_output *o, int fd, const char *lines, size_t size);
/*
 * Writes what fits without waiting. If `wait` is given, writes everything: `wait` blocks until fd is writable, and the
 * rest is dropped when it returns false.
 */
void line_output_flush(struct line_output *o, int fd, bool (*wait)(void *context, int fd), void *context);

#endif
