/* SPDX-License-Identifier: MIT */
/* What the head and the rows of the panel share. */
#ifndef VIEW_PANEL_LAYOUT_PRIVATE_H
#define VIEW_PANEL_LAYOUT_PRIVATE_H

#include "base/units.h"
#include "view/panel/layout.h"

enum ink {
	INK_PLAIN = 0,
	INK_BOLD,
	INK_DIM,
	INK_RED,
	INK_GREEN,
	INK_YELLOW,
	INK_CYAN,
};

/* Everything between the two is in that colour; nothing where there are none. */
void ink_begin(struct text *t, bool colour, enum ink ink);
void ink_end(struct text *t, bool colour, enum ink ink);
void ink_words(struct text *t, bool colour, enum ink ink, const char *words);
void ink_spaces(struct text *t, size_t count);

/* A bar of `columns`, the fraction 0…1 of it filled; the rest is thinner, and dim. */
void ink_bar(struct text *t, bool colour, enum ink ink, double fraction, size_t columns);

/* A time that is running: in seconds, since tenths would only flicker. Returns buf. */
const char *layout_time(uint64_t ns, char buf[UNITS_ROOM]);

/* The GPUs, in at most `lines` lines: how many were written. */
size_t layout_rows(struct text *t, const struct view_model *m, const struct layout_options *o, size_t lines);

#endif
