/* SPDX-License-Identifier: MIT */
/* What standard output can show. */
#ifndef BASE_TERMINAL_H
#define BASE_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

/* On a terminal that has colours, unless $NO_COLOR is set. */
bool terminal_has_colour(void);

/* Columns of the terminal; 80 where it is none or does not say. */
size_t terminal_width(void);
/* Lines of it; 24 likewise. */
size_t terminal_height(void);

enum colour {
	COLOUR_NONE = 0,
	COLOUR_BOLD,
	COLOUR_DIM,
	COLOUR_RED,
	COLOUR_GREEN,
	COLOUR_YELLOW,
};

/* Appends the words in a colour, or plain where there are none. */
void terminal_paint(struct text *out, bool coloured, enum colour colour, const char *words);

#endif
