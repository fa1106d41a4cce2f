/* SPDX-License-Identifier: MIT */
/* What the terminal on standard output can show. */
#ifndef BASE_TERMINAL_H
#define BASE_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

/* Whether standard output is a terminal with colors, and $NO_COLOR is not set. */
bool terminal_has_color(void);

/* Columns of the terminal; 80 if standard output is not a terminal or its size is unknown. */
size_t terminal_width(void);
/* Lines of the terminal; 24 if unknown. */
size_t terminal_height(void);

enum terminal_color {
	TERMINAL_NONE = 0,
	TERMINAL_BOLD,
	TERMINAL_DIM,
	TERMINAL_RED,
	TERMINAL_GREEN,
	TERMINAL_YELLOW,
};

/* Appends the words, in this color if `colored`. */
void terminal_paint(struct text *out, bool colored, enum terminal_color color, const char *words);

#endif
