/* SPDX-License-Identifier: MIT */
#include "base/display.h"

#include <locale.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "base/utf8.h"

#define ELLIPSIS "…"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static locale_t utf8_locale;

static void make_locale(void)
{
	utf8_locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

/* Columns of a character: wcwidth() in UTF-8, not in the program's locale, which may be C. */
static int columns_of(uint32_t c)
{
	pthread_once(&once, make_locale);
	if (!utf8_locale)
		return 1;
	locale_t before = uselocale(utf8_locale);
	int width = wcwidth((wchar_t)c);
	uselocale(before);
	return width;
}

/* How the bytes at one position of the text are shown on the screen. */
struct piece {
	size_t eaten;
	char shown[16];
	size_t length;
	size_t columns;
};

static void piece_escape(struct piece *p, uint32_t c, int is_byte)
{
	const char *name = c == '\n' ? "\\n" : c == '\t' ? "\\t" : c == '\r' ? "\\r" : NULL;
	int n;
	if (name)
		n = snprintf(p->shown, sizeof(p->shown), "%s", name);
	else if (is_byte)
		n = snprintf(p->shown, sizeof(p->shown), "\\x%02x", (unsigned)c);
	else
		n = snprintf(p->shown, sizeof(p->shown), c > 0xffff ? "\\U%08x" : "\\u%04x", (unsigned)c);
	p->length = p->columns = (size_t)n;
}

static void piece_next(struct piece *p, const unsigned char *s, size_t size)
{
	p->eaten = 1;
	if (s[0] >= 0x20 && s[0] < 0x7f) {
		p->shown[0] = (char)s[0];
		p->length = p->columns = 1;
		return;
	}
	size_t length = utf8_sequence((const char *)s, size);
	if (length < 2) {
		piece_escape(p, s[0], 1);
		return;
	}
	uint32_t c = utf8_decode((const char *)s, length);
	p->eaten = length;
	int width = columns_of(c);
	if (width < 0 || utf8_is_deceptive(c)) {
		piece_escape(p, c, 0);
		return;
	}
	memcpy(p->shown, s, length);
	p->length = length;
	p->columns = (size_t)width;
}

/* How many of the first bytes are printable ASCII, one column each. */
static size_t plain_bytes(const unsigned char *s, size_t size)
{
	const uint64_t ones = UINT64_C(0x0101010101010101), high = UINT64_C(0x8080808080808080);
	size_t n = 0;
	uint64_t w;
	/* Eight at a time: no byte is below 0x20, and none is above 0x7e. */
	for (; size - n >= 8; n += 8) {
		memcpy(&w, s + n, 8);
		if (((w - ones * 0x20) | (w + ones) | w) & high)
			break;
	}
	while (n < size && s[n] >= 0x20 && s[n] < 0x7f)
		n++;
	return n;
}

size_t display_width(const void *data, size_t size)
{
	const unsigned char *s = data;
	size_t columns = plain_bytes(s, size);
	struct piece p;
	for (size_t i = columns; i < size; i += p.eaten) {
		piece_next(&p, s + i, size - i);
		columns += p.columns;
	}
	return columns;
}

size_t display_append(struct text *t, const void *data, size_t size, size_t max_columns)
{
	const unsigned char *s = data;
	size_t columns = 0;
	if (size <= max_columns && plain_bytes(s, size) == size) {
		text_append(t, data, size);
		return size;
	}
	/* Where to truncate if the rest does not fit: the last position that leaves a column for the ellipsis. */
	size_t cut_length = t->length, cut_columns = 0;
	struct piece p;
	for (size_t i = 0; i < size; i += p.eaten) {
		piece_next(&p, s + i, size - i);
		if (p.columns > max_columns - columns) {
			if (max_columns == 0 || t->error)
				return 0;
			t->length = cut_length;
			text_append_string(t, ELLIPSIS);
			return cut_columns + 1;
		}
		text_append(t, p.shown, p.length);
		columns += p.columns;
		if (columns < max_columns) {
			cut_length = t->length;
			cut_columns = columns;
		}
	}
	return columns;
}

size_t display_append_first(struct text *t, const void *data, size_t size)
{
	struct piece p;
	piece_next(&p, data, size);
	text_append(t, p.shown, p.length);
	return p.eaten;
}

void display_pad(struct text *t, size_t used, size_t columns)
{
	static const char spaces[] = "                                ";
	for (size_t n; used < columns; used += n) {
		n = columns - used < sizeof(spaces) - 1 ? columns - used : sizeof(spaces) - 1;
		text_append(t, spaces, n);
	}
}

void display_append_padded(struct text *t, const void *data, size_t size, size_t columns)
{
	display_pad(t, display_append(t, data, size, columns), columns);
}

const char *display_quote(const char *string, char buf[DISPLAY_QUOTE_ROOM])
{
	struct text t = {0};
	display_append(&t, string, strnlen(string, 4 * DISPLAY_QUOTE_ROOM), 40);
	/* Combining marks take no column but could fill the buffer. */
	snprintf(buf, DISPLAY_QUOTE_ROOM, "%s", t.length < DISPLAY_QUOTE_ROOM ? text_string(&t) : ELLIPSIS);
	text_finish(&t);
	return buf;
}

size_t display_word_start(const char *command, size_t at)
{
	while (at > 0 && command[at - 1] != ' ')
		at--;
	size_t before = at;
	while (before > 0 && command[before - 1] == ' ')
		before--;
	while (before > 0 && command[before - 1] != ' ')
		before--;
	return before < at && command[before] == '-' ? before : at;
}
