/* SPDX-License-Identifier: MIT */
/*
 * A screen of cells: full-screen programs draw into it, and a thin layer copies it to a terminal. All text put here is
 * made safe to show (base/display.h), never leaves the screen, and a two-column character is never cut in half.
 */
#ifndef VIEW_TOP_SCREEN_H
#define VIEW_TOP_SCREEN_H

#include <stdbool.h>

#include "base/text.h"
#include "gpu_dispatch.h"
#include "view/model/palette.h"

/* A style is one color, plus any of the flags. */
enum screen_style {
	SCREEN_PLAIN = 0,
	SCREEN_RED,
	SCREEN_GREEN,
	SCREEN_YELLOW,
	SCREEN_BLUE,
	SCREEN_MAGENTA,
	SCREEN_CYAN,
	SCREEN_COLORS, /* the number of colors */
	SCREEN_COLOR = 0x0f,
	SCREEN_BOLD = 0x10,
	SCREEN_DIM = 0x20,
	SCREEN_REVERSE = 0x40,
};

/* A color of the palette as a style. */
unsigned screen_style(enum palette_color color);

#define SCREEN_CELL 15

struct screen_cell {
	char text[SCREEN_CELL]; /* UTF-8; "" after a two-column character */
	unsigned char style;
};

/* Start from {0}. */
struct screen {
	int rows, columns;
	struct screen_cell *cells;
	size_t capacity;
	int cursor_row, cursor_column; /* row -1: no cursor */
};

/* Clears the screen and sets its size. 0 or -ENOMEM. */
int screen_begin(struct screen *s, int rows, int columns);
void screen_finish(struct screen *s);

/* Puts at most `width` columns, cut with an ellipsis. Returns the number used. */
int screen_put(struct screen *s, int row, int column, int width, unsigned style, const char *text);
int screen_putf(struct screen *s, int row, int column, int width, unsigned style, const char *format, ...)
	GD_PRINTF(6, 7);
/* The same, ending at column + width. */
void screen_put_right(struct screen *s, int row, int column, int width, unsigned style, const char *text);
/* Puts a path; only the end of a long path is shown. */
void screen_put_path(struct screen *s, int row, int column, int width, unsigned style, const char *path);
/* Repeats one character. */
void screen_fill(struct screen *s, int row, int column, int width, unsigned style, const char *character);
/* Shows the cells in reverse and without colors, for the row of the cursor. */
void screen_invert(struct screen *s, int row, int column, int width);

/* ---- Bars, boxes and plots ------------------------------------------------------------ */

/* ━━━━╸─── ; part: the filled fraction, 0…1. */
void screen_bar(struct screen *s, int row, int column, int width, unsigned style, double part);
/* ━━━╍╍─── ; the same, plus a reserved part: `reserved` is a fraction of the whole, counted from its beginning. */
void screen_bar_reserved(
	struct screen *s, int row, int column, int width, unsigned style, double part, double reserved);
/* An empty box with a border; texts in its upper and lower edge, or NULL. */
void screen_box(struct screen *s, int row, int column, int width, int height, const char *title, const char *footer);
/*
 * A plot of past values, oldest first, in braille: two values per column, four dots per row. Values are 0…100, -1 is
 * unknown; the newest is at the right edge.
 */
void screen_plot(
	struct screen *s, int row, int column, int width, int height, unsigned style, const int *values, size_t count);

#endif
