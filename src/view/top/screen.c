/* SPDX-License-Identifier: MIT */
#include "view/top/screen.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/display.h"
#include "base/utf8.h"

unsigned screen_style(enum palette_color color)
{
	static const unsigned char styles[PALETTE_COLORS] = {
		[PALETTE_PLAIN] = SCREEN_PLAIN,
		[PALETTE_GRAY] = SCREEN_DIM,
		[PALETTE_BLUE] = SCREEN_BLUE,
		[PALETTE_GREEN] = SCREEN_GREEN,
		[PALETTE_RED] = SCREEN_RED,
		[PALETTE_YELLOW] = SCREEN_YELLOW,
		[PALETTE_MAGENTA] = SCREEN_MAGENTA,
		[PALETTE_CYAN] = SCREEN_CYAN,
	};
	return (unsigned)color < PALETTE_COLORS ? styles[color] : SCREEN_PLAIN;
}

int screen_begin(struct screen *s, int rows, int columns)
{
	rows = rows < 1 ? 1 : rows;
	columns = columns < 1 ? 1 : columns;
	size_t count = (size_t)rows * (size_t)columns;
	if (array_reserve(s->cells, &s->capacity, count) < 0)
		return -ENOMEM;
	s->rows = rows;
	s->columns = columns;
	for (size_t i = 0; i < count; i++)
		s->cells[i] = (struct screen_cell){" ", SCREEN_PLAIN};
	s->cursor_row = s->cursor_column = -1;
	return 0;
}

void screen_finish(struct screen *s)
{
	free(s->cells);
	*s = (struct screen){0};
}

static struct screen_cell *cell(const struct screen *s, int row, int column)
{
	return &s->cells[(size_t)row * (size_t)s->columns + (size_t)column];
}

/* The part of the width that is on the screen; 0: none. */
static int room(const struct screen *s, int row, int column, int width)
{
	if (row < 0 || row >= s->rows || column < 0 || column >= s->columns || width <= 0)
		return 0;
	return width < s->columns - column ? width : s->columns - column;
}

/* Blanks the other half of a wide character that is partly overwritten. */
static void mend(struct screen *s, int row, int column, int width)
{
	if (column > 0 && !cell(s, row, column)->text[0])
		strcpy(cell(s, row, column - 1)->text, " ");
	if (column + width < s->columns && !cell(s, row, column + width)->text[0])
		strcpy(cell(s, row, column + width)->text, " ");
}

static void put_character(struct screen *s, int row, int column, int columns, unsigned style, const char *c, size_t n)
{
	struct screen_cell *to = cell(s, row, column);
	memcpy(to->text, c, n);
	to->text[n] = '\0';
	to->style = (unsigned char)style;
	if (columns == 2) {
		to[1].text[0] = '\0';
		to[1].style = (unsigned char)style;
	}
}

/* Appends zero-width marks to the character before them, if its cell has space. */
static void combine(struct screen *s, int row, int column, const char *c, size_t n)
{
	while (column > 0 && !cell(s, row, column)->text[0])
		column--;
	char *text = cell(s, row, column)->text;
	size_t length = strlen(text);
	if (length + n < SCREEN_CELL) {
		memcpy(text + length, c, n);
		text[length + n] = '\0';
	}
}

/* Puts text that is safe and fits. */
static int put_shown(struct screen *s, int row, int column, unsigned style, const struct text *shown)
{
	int used = 0;
	for (size_t i = 0; i < shown->length;) {
		size_t n = utf8_sequence(shown->data + i, shown->length - i);
		n = n ? n : 1;
		int columns = (unsigned char)shown->data[i] < 0x80 ? 1 : (int)display_width(shown->data + i, n);
		if (columns > 0)
			put_character(s, row, column + used, columns, style, shown->data + i, n);
		else if (used > 0)
			combine(s, row, column + used - 1, shown->data + i, n);
		used += columns;
		i += n;
	}
	return used;
}

int screen_put(struct screen *s, int row, int column, int width, unsigned style, const char *text)
{
	cleanup_(text_finish) struct text shown = {0};
	width = room(s, row, column, width);
	if (width == 0 || !text)
		return 0;
	int columns = (int)display_append(&shown, text, strlen(text), (size_t)width);
	if (columns == 0 || text_error(&shown))
		return 0;
	mend(s, row, column, columns);
	return put_shown(s, row, column, style, &shown);
}

int screen_putf(struct screen *s, int row, int column, int width, unsigned style, const char *format, ...)
{
	cleanup_(text_finish) struct text t = {0};
	va_list args;
	va_start(args, format);
	text_vappendf(&t, format, args);
	va_end(args);
	return text_error(&t) ? 0 : screen_put(s, row, column, width, style, text_string(&t));
}

void screen_put_right(struct screen *s, int row, int column, int width, unsigned style, const char *text)
{
	int used = (int)display_width(text, strlen(text));
	int before = used < width ? width - used : 0;
	screen_put(s, row, column + before, width - before, style, text);
}

void screen_put_path(struct screen *s, int row, int column, int width, unsigned style, const char *path)
{
	const char *end = path;
	while ((int)display_width(end, strlen(end)) + (end != path) > width) {
		const char *slash = *end ? strchr(end + 1, '/') : NULL;
		if (!slash)
			break;
		end = slash;
	}
	int used = end == path ? 0 : screen_put(s, row, column, 1, style, "…");
	screen_put(s, row, column + used, width - used, style, end);
}

void screen_fill(struct screen *s, int row, int column, int width, unsigned style, const char *character)
{
	width = room(s, row, column, width);
	if (width == 0)
		return;
	mend(s, row, column, width);
	for (int i = 0; i < width; i++)
		put_character(s, row, column + i, 1, style, character, strlen(character));
}

void screen_invert(struct screen *s, int row, int column, int width)
{
	width = room(s, row, column, width);
	for (int i = 0; i < width; i++)
		cell(s, row, column + i)->style = SCREEN_REVERSE | (cell(s, row, column + i)->style & SCREEN_BOLD);
}

/* ---- Bars, boxes and plots ------------------------------------------------------------- */

void screen_bar(struct screen *s, int row, int column, int width, unsigned style, double part)
{
	part = part < 0 ? 0 : part > 1 ? 1 : part;
	int halves = (int)(part * width * 2 + 0.5);
	/* Any value above 0 is visible, and only 1 fills the bar. */
	if (halves == 0 && part > 0)
		halves = 1;
	if (halves == 2 * width && part < 1)
		halves--;
	screen_fill(s, row, column, halves / 2, style, "━");
	screen_fill(s, row, column + halves / 2, width - halves / 2, SCREEN_DIM, "─");
	if (halves % 2)
		screen_fill(s, row, column + halves / 2, 1, style, "╸");
}

void screen_bar_reserved(struct screen *s, int row, int column, int width, unsigned style, double part, double reserved)
{
	screen_bar(s, row, column, width, style, part);
	int used = (int)(part * width + 0.999), until = (int)((reserved > 1 ? 1 : reserved) * width + 0.5);
	if (until > used)
		screen_fill(s, row, column + used, until - used, style | SCREEN_DIM, "╍");
}

void screen_box(struct screen *s, int row, int column, int width, int height, const char *title, const char *footer)
{
	for (int i = 0; i < height; i++) {
		bool edge = i == 0 || i == height - 1;
		screen_fill(s, row + i, column, width, SCREEN_PLAIN, edge ? "─" : " ");
		screen_fill(s, row + i, column, 1, SCREEN_PLAIN, i == 0 ? "┌" : edge ? "└" : "│");
		screen_fill(s, row + i, column + width - 1, 1, SCREEN_PLAIN, i == 0 ? "┐" : edge ? "┘" : "│");
	}
	if (title && width > 6)
		screen_putf(s, row, column + 2, width - 4, SCREEN_BOLD, " %s ", title);
	if (footer && width > 6 && height > 1)
		screen_putf(s, row + height - 1, column + 2, width - 4, SCREEN_DIM, " %s ", footer);
}

/* Dots of a value in one column of the plot; at least one if it is known. */
static int dots(int value, int height)
{
	if (value < 0)
		return 0;
	int n = ((value > 100 ? 100 : value) * height * 4 + 50) / 100;
	return n > 0 ? n : 1;
}

/* The braille bits of the lowest `n` dots of a cell. */
static unsigned fill_of(int n, bool right)
{
	static const unsigned char left_dots[] = {0, 0x40, 0x44, 0x46, 0x47};
	static const unsigned char right_dots[] = {0, 0x80, 0xa0, 0xb0, 0xb8};
	n = n < 0 ? 0 : n > 4 ? 4 : n;
	return right ? right_dots[n] : left_dots[n];
}

void screen_plot(
	struct screen *s, int row, int column, int width, int height, unsigned style, const int *values, size_t count)
{
	for (int x = 0; x < width; x++) {
		/* Counted from the right edge: two values per column. */
		size_t from_end = (size_t)(width - x) * 2;
		int left = from_end <= count ? values[count - from_end] : -1;
		int right = count && from_end <= count + 1 ? values[count + 1 - from_end] : -1;
		for (int y = 0; y < height; y++) {
			int below = (height - 1 - y) * 4;
			unsigned bits =
				fill_of(dots(left, height) - below, false) | fill_of(dots(right, height) - below, true);
			if (!bits)
				continue;
			/* U+2800 + bits */
			char c[4] = {(char)0xe2, (char)(0xa0 | bits >> 6), (char)(0x80 | (bits & 0x3f)), 0};
			screen_fill(s, row + y, column + x, 1, style, c);
		}
	}
}
