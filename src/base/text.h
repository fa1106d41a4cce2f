/* SPDX-License-Identifier: MIT */
/*
 * A string that grows. Start from `struct text t = {0}`; release with text_finish(), also as cleanup_(text_finish).
 *
 * Append functions do not return errors. If memory runs out, text_error() returns -ENOMEM: check it once, when the
 * string is complete. data is NUL-terminated as soon as anything was appended.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "gpu_dispatch.h"

struct text {
	char *data;
	size_t length;
	size_t room;
	int error;
};

void text_finish(struct text *t);
void text_clear(struct text *t); /* keeps the memory */

/* The slow path of text_append(): reallocates. */
void text_append_growing(struct text *t, const void *data, size_t size);

static inline void text_append(struct text *t, const void *data, size_t size)
{
	if (t->error || size >= t->room - t->length) {
		text_append_growing(t, data, size);
		return;
	}
	if (size)
		memcpy(t->data + t->length, data, size);
	t->length += size;
	t->data[t->length] = '\0';
}

static inline void text_append_string(struct text *t, const char *string)
{
	text_append(t, string, strlen(string));
}

static inline void text_append_char(struct text *t, char c)
{
	text_append(t, &c, 1);
}

void text_append_number(struct text *t, uint64_t n); /* in decimal */

void text_appendf(struct text *t, const char *format, ...) GD_PRINTF(2, 3);
void text_vappendf(struct text *t, const char *format, va_list args) GD_PRINTF(2, 0);

/* 0 or -ENOMEM. */
int text_error(const struct text *t);

/* The string, never NULL; valid until the next append. */
const char *text_string(const struct text *t);

/* Hands the string over, to be released with free(); NULL if out of memory. */
char *text_take(struct text *t);

#endif
