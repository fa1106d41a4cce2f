/* SPDX-License-Identifier: MIT */
#include "base/utf8.h"

#include <stdbool.h>
#include <string.h>

static bool is_continuation(unsigned char c)
{
	return (c & 0xC0) == 0x80;
}

size_t utf8_sequence(const char *text, size_t size)
{
	const unsigned char *c = (const unsigned char *)text;
	if (c[0] < 0x80)
		return 1;
	size_t length = c[0] >= 0xF0 ? 4 : c[0] >= 0xE0 ? 3 : 2;
	if (c[0] < 0xC2 || c[0] > 0xF4 || length > size)
		return 0;
	for (size_t i = 1; i < length; i++)
		if (!is_continuation(c[i]))
			return 0;
	if ((c[0] == 0xE0 && c[1] < 0xA0) || (c[0] == 0xED && c[1] > 0x9F) || (c[0] == 0xF0 && c[1] < 0x90) ||
		(c[0] == 0xF4 && c[1] > 0x8F))
		return 0;
	return length;
}

bool utf8_is_valid(const char *text, size_t size)
{
	for (size_t n; size > 0; text += n, size -= n)
		if ((n = utf8_sequence(text, size)) == 0)
			return false;
	return true;
}

uint32_t utf8_decode(const char *text, size_t length)
{
	const unsigned char *s = (const unsigned char *)text;
	uint32_t c = length == 1 ? s[0] : s[0] & (0x7fu >> length);
	for (size_t i = 1; i < length; i++)
		c = c << 6 | (s[i] & 0x3f);
	return c;
}

bool utf8_is_deceptive(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c || c == 0x180e ||
	       (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) ||
	       c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe0fff);
}

size_t utf8_whole(const char *text, size_t size)
{
	for (size_t back = 1; back <= 3 && back <= size; back++) {
		unsigned char c = (unsigned char)text[size - back];
		if (is_continuation(c))
			continue;
		size_t length = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
		return length > back ? size - back : size;
	}
	return size;
}

size_t utf8_copy_line(char *to, size_t room, const char *text, size_t size)
{
	size_t written = 0;
	for (size_t i = 0; i < size;) {
		size_t length = utf8_sequence(text + i, size - i);
		unsigned char c = (unsigned char)text[i];
		/* The C1 control characters are two bytes in UTF-8, and terminals interpret them, too. */
		bool control = c < 0x20 || c == 0x7F || (length == 2 && c == 0xC2 && (unsigned char)text[i + 1] < 0xA0);
		bool valid = length > 0 && !control;
		const char *piece = valid ? text + i : UTF8_REPLACEMENT;
		size_t piece_size = valid ? length : strlen(UTF8_REPLACEMENT);
		if (piece_size >= room - written)
			break;
		memcpy(to + written, piece, piece_size);
		written += piece_size;
		i += length ? length : 1;
	}
	to[written] = '\0';
	return written;
}
