/* SPDX-License-Identifier: MIT */
#include "view/panel/ink.h"

void ink_begin(struct text *t, bool color, enum ink ink)
{
	if (color)
		text_append_string(t, ink == INK_BOLD ? "\033[1m" : palette_escape((enum palette_color)ink));
}

void ink_end(struct text *t, bool color, enum ink ink)
{
	if (color && ink != INK_PLAIN)
		text_append_string(t, "\033[0m");
}

void ink_words(struct text *t, bool color, enum ink ink, const char *words)
{
	ink_begin(t, color, ink);
	text_append_string(t, words);
	ink_end(t, color, ink);
}

void ink_spaces(struct text *t, size_t count)
{
	while (count-- > 0)
		text_append_char(t, ' ');
}

void ink_bar(struct text *t, bool color, enum ink ink, double fraction, size_t columns)
{
	/* In half columns, rounded down: the bar is full only when everything is done. */
	size_t halves = (size_t)((fraction < 0 ? 0 : fraction > 1 ? 1 : fraction) * (double)columns * 2);
	ink_begin(t, color, ink);
	for (size_t i = 0; i < halves / 2; i++)
		text_append_string(t, "━");
	if (halves % 2)
		text_append_string(t, "╸");
	ink_end(t, color, ink);
	size_t used = halves / 2 + halves % 2;
	if (used == columns)
		return;
	ink_begin(t, color, INK_DIM);
	for (size_t i = used; i < columns; i++)
		text_append_string(t, "─");
	ink_end(t, color, INK_DIM);
}
