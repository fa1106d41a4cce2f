/* SPDX-License-Identifier: MIT */
/*
 * A screen of cells: what full-screen programs lay out, and something thin then
 * brings to a terminal. What is put is safe to show (base/display.h), never leaves the
 * screen, and a character of two columns is never cut in half.
 */
#ifndef VIEW_TOP_SCREEN_H
#define VIEW_TOP_SCREEN_H

#include <stdbool.h>

#include "base/text.h"
#include "gpu_dispatch.h"
#include "view/model/palette.h"

/* A style is one colour, and any of the flags. */
enum screen_style {
	SCREEN_PLAIN = 0,
	SCREEN_RED,
	SCREEN_GREEN,
	SCREEN_YELLOW,
	SCREEN_BLUE,
	SCREEN_MAGENTA,
	SCREEN_CYAN,
	SCREEN_COLOURS, /* how many */
	SCREEN_COLOUR = 0x0f,
	SCREEN_BOLD = 0x10,
	SCREEN_DIM = 0x20,
	SCREEN_REVERSE = 0x40,
};

/* A color of the palette as a style. */
unsigned screen_style(enum palette_color color);

#define SCREEN_CELL 15

struct screen_cell {
	char text[SCREEN_CELL]; /* UTF-8; "" behind a character of two columns */
	unsigned char style;
};

/* Start from {0}. */
struct screen {
	int rows, columns;
	struct screen_cell *cells;
	size_t capacity;
	int cursor_row, cursor_column; /* row -1: none is shown */
};

/* Empty, of this size. 0 or -ENOMEM. */
int screen_begin(struct screen *s, int rows, int columns);
void screen_finish(struct screen *s);

/* At most `width` columns, cut with an ellipsis. Returns how many were used. */
int screen_put(struct screen *s, int row, int column, int width, unsigned style, const char *text);
int screen_putf(struct screen *s, int row, int column, int width, unsigned style, const char *format, ...)
	GD_PRINTF(6, 7);
/* The same, ending at column + width. */
void screen_put_right(struct screen *s, int row, int column, int width, unsigned style, const char *text);
/* A path: of a long one the end is shown, which tells more. */
void screen_put_path(struct screen *s, int row, int column, int width, unsigned style, const char *path);
/* One character, over and over. */
void screen_fill(struct screen *s, int row, int column, int width, unsigned style, const char *character);
/* Turns what is there around, without its colours: the row of a cursor. */
void screen_invert(struct screen *s, int row, int column, int width);

/* ---- Small pictures ------------------------------------------------------------------ */

/* ━━━━╸─── ; part of whole, which is above 0. */
void screen_bar(struct screen *s, int row, int column, int width, unsigned style, double part);
/* ━━━╍╍─── ; the same, and what is set aside beyond it: `reserved` of the whole, from its beginning. */
void screen_bar_reserved(
	struct screen *s, int row, int column, int width, unsigned style, double part, double reserved);
/* An empty box with a border; words in its upper and lower edge, or NULL. */
void screen_box(struct screen *s, int row, int column, int width, int height, const char *title, const char *footer);
/*
 * What was, oldest first, in braille: two values a column, four dots a row. Values
 * are 0…100, -1 is not known; the newest is at the right edge.
 */
void screen_plot(
	struct screen *s, int row, int column, int width, int height, unsigned style, const int *values, size_t count);

#endif
