/* SPDX-License-Identifier: MIT */
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define FIRST_BYTES 64

void text_finish(struct text *t)
{
	free(t->data);
	*t = (struct text){0};
}

void text_clear(struct text *t)
{
	t->length = 0;
	t->error = 0;
	if (t->data)
		t->data[0] = '\0';
}

/* Makes room for `more` bytes and the NUL. */
static bool text_grow(struct text *t, size_t more)
{
	if (t->error)
		return false;
	if (more >= SIZE_MAX / 2 - t->length) {
		t->error = -ENOMEM;
		return false;
	}
	size_t need = t->length + more + 1;
	if (array_reserve(t->data, &t->room, need < FIRST_BYTES ? FIRST_BYTES : need) < 0) {
		t->error = -ENOMEM;
		return false;
	}
	return true;
}

void text_append_growing(struct text *t, const void *data, size_t size)
{
	if (!text_grow(t, size))
		return;
	if (size)
		memcpy(t->data + t->length, data, size);
	t->length += size;
	t->data[t->length] = '\0';
}

void text_append_number(struct text *t, uint64_t n)
{
	char digits[20], *end = digits + sizeof(digits), *p = end;
	do
		*--p = (char)('0' + n % 10);
	while (n /= 10);
	text_append(t, p, (size_t)(end - p));
}

void text_vappendf(struct text *t, const char *format, va_list args)
{
	va_list again;
	va_copy(again, args);
	/* The text usually fits into the free space, so it is formatted only once. */
	size_t left = t->data && !t->error ? t->room - t->length : 0;
	int n = vsnprintf(left ? t->data + t->length : NULL, left, format, args);
	if (n >= 0 && text_grow(t, (size_t)n)) {
		if ((size_t)n >= left)
			vsnprintf(t->data + t->length, (size_t)n + 1, format, again);
		t->length += (size_t)n;
	} else if (n < 0 && !t->error) {
		t->error = -EINVAL;
	}
	va_end(again);
}

void text_appendf(struct text *t, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	text_vappendf(t, format, args);
	va_end(args);
}

int text_error(const struct text *t)
{
	return t->error;
}

const char *text_string(const struct text *t)
{
	return t->data ? t->data : "";
}

char *text_take(struct text *t)
{
	text_append(t, "", 0);
	if (t->error) {
		text_finish(t);
		return NULL;
	}
	char *data = t->data;
	*t = (struct text){0};
	return data;
}
