/* SPDX-License-Identifier: MIT */
#include "view/top/log_tail.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/display.h"
#include "base/utf8.h"

/* The most bytes of a line that are shown. */
#define LINE_BYTES ((size_t)32 * 1024)

void log_tail_finish(struct log_tail *l)
{
	text_finish(&l->bytes);
	free(l->starts);
	*l = (struct log_tail){0};
}

static int add_line(struct log_tail *l, size_t start)
{
	if (array_reserve(l->starts, &l->capacity, l->num_lines + 1) < 0)
		return -ENOMEM;
	l->starts[l->num_lines++] = start;
	return 0;
}

/* Keeps half of the limit, so that this is rarely needed. */
static void drop_old(struct log_tail *l)
{
	size_t cut = l->bytes.length - LOG_TAIL_BYTES / 2, first = 0;
	while (first + 1 < l->num_lines && l->starts[first] < cut)
		first++;
	/* Keep the end of a line that is longer than the limit. */
	size_t from = l->starts[first] < cut ? cut : l->starts[first];
	memmove(l->bytes.data, l->bytes.data + from, l->bytes.length - from + 1);
	l->bytes.length -= from;
	for (size_t i = first; i < l->num_lines; i++)
		l->starts[i - first] = l->starts[i] > from ? l->starts[i] - from : 0;
	l->num_lines -= first;
	l->num_dropped += first;
	l->cut = true;
}

static int append_piece(struct log_tail *l, const char *data, size_t size)
{
	if (l->num_lines == 0 && add_line(l, 0) < 0)
		return -ENOMEM;
	size_t at = l->bytes.length;
	text_append(&l->bytes, data, size);
	if (text_error(&l->bytes))
		return -ENOMEM;
	for (const char *p = data; (p = memchr(p, '\n', size - (size_t)(p - data))); p++)
		if (add_line(l, at + (size_t)(p - data) + 1) < 0)
			return -ENOMEM;
	if (l->bytes.length > LOG_TAIL_BYTES)
		drop_old(l);
	return 0;
}

int log_tail_append(struct log_tail *l, const void *data, size_t size)
{
	const char *p = data;
	int r = 0;
	while (r == 0 && size > 0) {
		size_t n = size < LOG_TAIL_BYTES / 4 ? size : LOG_TAIL_BYTES / 4;
		r = append_piece(l, p, n);
		p += n;
		size -= n;
	}
	return r;
}

size_t log_tail_lines(const struct log_tail *l)
{
	bool empty_end = l->num_lines && l->starts[l->num_lines - 1] == l->bytes.length;
	return l->num_lines - empty_end;
}

/* The length of an escape sequence: colors, cursor, titles. */
static size_t escape_length(const char *s, size_t size)
{
	size_t n = 2;
	if (size < 2)
		return size;
	if (s[1] == '[') {
		while (n < size && (s[n] < 0x40 || s[n] > 0x7e))
			n++;
		return n < size ? n + 1 : size;
	}
	if (s[1] == ']') {
		while (n < size && s[n] != '\a' && !(s[n] == '\033' && n + 1 < size && s[n + 1] == '\\'))
			n++;
		return n == size ? size : s[n] == '\a' ? n + 1 : n + 2;
	}
	return 2;
}

/* The last state of the line: the text after the last carriage return that is followed by text. */
static const char *after_return(const char *s, size_t *size)
{
	while (*size && s[*size - 1] == '\r')
		--*size;
	const char *back = memrchr(s, '\r', *size);
	if (back) {
		*size -= (size_t)(back + 1 - s);
		s = back + 1;
	}
	return s;
}

static void append_tab(struct text *t, size_t *column)
{
	do
		text_append_char(t, ' ');
	while (++*column % 8);
}

void log_tail_line(const struct log_tail *l, size_t i, struct text *t)
{
	size_t end = i + 1 < l->num_lines ? l->starts[i + 1] - 1 : l->bytes.length;
	size_t size = end - l->starts[i], column = 0;
	const char *s = after_return(l->bytes.data + l->starts[i], &size);
	size = size < LINE_BYTES ? size : LINE_BYTES;
	for (size_t at = 0; at < size;) {
		size_t n = 0;
		if (s[at] == '\033') {
			at += escape_length(s + at, size - at);
		} else if (s[at] == '\t') {
			append_tab(t, &column);
			at++;
		} else if (s[at] == '\b') {
			at++;
		} else {
			n = utf8_sequence(s + at, size - at);
			n = n ? n : 1;
			column += display_append(t, s + at, n, DISPLAY_ALL);
			at += n;
		}
	}
}
