/* SPDX-License-Identifier: MIT */
#include "base/terminal_text.h"

#include <string.h>

#include "base/display.h"
#include "base/utf8.h"

/* The length of an incomplete color sequence. */
static size_t color_begin(const char *s, size_t size)
{
	size_t n = 0;
	if (size > n && s[n] == '\033')
		n++;
	if (n == 1 && size > n && s[n] == '[')
		n++;
	while (n >= 2 && n < size && ((s[n] >= '0' && s[n] <= '9') || s[n] == ';' || s[n] == ':'))
		n++;
	return n;
}

size_t terminal_text_color(const char *s, size_t size)
{
	size_t n = color_begin(s, size);
	return n >= 2 && n < TERMINAL_TEXT_MAX_COLOR && n < size && s[n] == 'm' ? n + 1 : 0;
}

static bool passes(const struct terminal_text *f, char c)
{
	return c == '\n' || c == '\t' || (!f->one_line && (c == '\r' || c == '\b'));
}

/* Appends the complete part; returns the number of bytes of the data that it used. */
static size_t append_decided(struct terminal_text *f, struct text *to, const char *s, size_t size, bool is_end)
{
	size_t whole = is_end ? size : utf8_whole(s, size), i = 0;
	while (i < whole) {
		size_t color = terminal_text_color(s + i, size - i);
		if (color) {
			text_append(to, s + i, color);
			f->colored = true;
			i += color;
		} else if (s[i] == '\033' && !is_end && color_begin(s + i, size - i) == size - i &&
			   size - i < TERMINAL_TEXT_MAX_COLOR) {
			break;
		} else if (passes(f, s[i])) {
			text_append_char(to, s[i++]);
		} else {
			i += display_append_first(to, s + i, size - i);
		}
	}
	return i;
}

void terminal_text_append(struct terminal_text *f, struct text *to, const void *data, size_t size)
{
	struct text all = {0};
	const char *s = data;
	if (f->num_held) {
		text_append(&all, f->held, f->num_held);
		text_append(&all, data, size);
		if (text_error(&all)) {
			to->error = text_error(&all);
			text_finish(&all);
			return;
		}
		s = all.data;
		size = all.length;
	}
	size_t done = append_decided(f, to, s, size, false);
	f->num_held = size - done;
	memcpy(f->held, s + done, f->num_held);
	text_finish(&all);
}

void terminal_text_end(struct terminal_text *f, struct text *to)
{
	append_decided(f, to, f->held, f->num_held, true);
	f->num_held = 0;
	if (f->colored)
		text_append_string(to, "\033[0m");
	f->colored = false;
}
