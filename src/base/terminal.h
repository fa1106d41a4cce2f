/* SPDX-License-Identifier: MIT */
/* What the terminal on standard output can show. */
#ifndef BASE_TERMINAL_H
#define BASE_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

/* On a terminal with colors, unless $NO_COLOR is set. */
bool terminal_has_colour(void);

/* Columns of the terminal; 80 if standard output is not a terminal or its size is unknown. */
size_t terminal_width(void);
/* Lines of the terminal; 24 if unknown. */
size_t terminal_height(void);

enum colour {
	COLOUR_NONE = 0,
	COLOUR_BOLD,
	COLOUR_DIM,
	COLOUR_RED,
	COLOUR_GREEN,
	COLOUR_YELLOW,
};

/* Appends the words, in a color if `coloured`. */
void terminal_paint(struct text *out, bool coloured, enum colour colour, const char *words);

#endif
