/* SPDX-License-Identifier: MIT */
/*
 * Text of the panel in color: escape sequences around words, and bars.
 *
 * Everything that is begun is ended on the same line, so a line can be cut off or
 * replaced without affecting the next one. With `colour` false no escape sequence is
 * written, and the text is otherwise the same.
 */
#ifndef VIEW_PANEL_INK_H
#define VIEW_PANEL_INK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

enum ink {
	INK_PLAIN = 0,
	INK_BOLD,
	INK_DIM,
	INK_RED,
	INK_GREEN,
	INK_YELLOW,
	INK_CYAN,
};

/* Text that is appended between the two has this ink. */
void ink_begin(struct text *t, bool colour, enum ink ink);
void ink_end(struct text *t, bool colour, enum ink ink);
void ink_words(struct text *t, bool colour, enum ink ink, const char *words);
void ink_spaces(struct text *t, size_t count);

/* A bar of `columns`, of which the fraction 0…1 is filled; the rest is a thin, dim line. */
void ink_bar(struct text *t, bool colour, enum ink ink, double fraction, size_t columns);

#endif
