/* SPDX-License-Identifier: MIT */
/*
 * Text of the panel in color: escape sequences around words, and bars.
 *
 * Everything that is begun is ended on the same line, so a line can be cut off or
 * replaced without affecting the next one. With `color` false no escape sequence is
 * written, and the text is otherwise the same.
 */
#ifndef VIEW_PANEL_INK_H
#define VIEW_PANEL_INK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "view/model/palette.h"

/* The colors of the palette, and bold. */
enum ink {
	INK_PLAIN = PALETTE_PLAIN,
	INK_DIM = PALETTE_GRAY,
	INK_BLUE = PALETTE_BLUE,
	INK_GREEN = PALETTE_GREEN,
	INK_RED = PALETTE_RED,
	INK_YELLOW = PALETTE_YELLOW,
	INK_MAGENTA = PALETTE_MAGENTA,
	INK_BOLD = PALETTE_COLORS,
};

/* Text appended between the two calls has this ink. */
void ink_begin(struct text *t, bool color, enum ink ink);
void ink_end(struct text *t, bool color, enum ink ink);
void ink_words(struct text *t, bool color, enum ink ink, const char *words);
void ink_spaces(struct text *t, size_t count);

/* A bar of `columns`, of which the fraction 0…1 is filled; the rest is a thin, dim line. */
void ink_bar(struct text *t, bool color, enum ink ink, double fraction, size_t columns);

#endif
