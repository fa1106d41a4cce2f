/* SPDX-License-Identifier: MIT */
#include "base/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/display.h"

#define GAP       2
#define MIN_WIDTH 8 /* of the flexible column */

struct table_cell {
	char *words;
	enum terminal_color color;
};

void table_finish(struct table *t)
{
	for (size_t i = 0; i < t->num_cells; i++)
		free(t->cells[i].words);
	free(t->cells);
	t->cells = NULL;
	t->num_cells = t->capacity = 0;
}

void table_cell(struct table *t, enum terminal_color color, const char *words)
{
	bool has_room = array_reserve(t->cells, &t->capacity, t->num_cells + 1) == 0;
	char *copy = has_room ? strdup(words ? words : "") : NULL;
	if (!copy) {
		t->error = -ENOMEM;
		return;
	}
	t->cells[t->num_cells++] = (struct table_cell){copy, color};
}

void table_cellf(struct table *t, enum terminal_color color, const char *format, ...)
{
	cleanup_(text_finish) struct text words = {0};
	va_list args;
	va_start(args, format);
	text_vappendf(&words, format, args);
	va_end(args);
	table_cell(t, color, text_string(&words));
}

static void measure(const struct table *t, size_t width, size_t *widths)
{
	for (size_t c = 0; c < t->num_columns; c++)
		widths[c] = 0;
	for (size_t i = 0; i < t->num_cells; i++) {
		const char *words = t->cells[i].words;
		size_t w = strcmp(words, "-") == 0 ? 0 : display_width(words, strlen(words));
		if (w > widths[i % t->num_columns])
			widths[i % t->num_columns] = w;
	}
	size_t total = 0, giving = t->num_columns;
	for (size_t c = 0; c < t->num_columns; c++) {
		size_t title = strlen(t->columns[c].title);
		if (widths[c] > 0 && widths[c] < title)
			widths[c] = title;
		total += widths[c] ? widths[c] + GAP : 0;
		if (t->columns[c].gives_way)
			giving = c;
	}
	if (giving == t->num_columns || total < GAP || total - GAP <= width)
		return;
	size_t over = total - GAP - width;
	widths[giving] = widths[giving] > over + MIN_WIDTH ? widths[giving] - over : MIN_WIDTH;
}

/* A cell in its column; the last cell of a line is not padded. */
static void append_cell(struct text *out, const char *words, size_t width, bool right, bool last)
{
	size_t length = strlen(words);
	size_t used = display_width(words, length);
	for (size_t i = used; right && i < width; i++)
		text_append_char(out, ' ');
	if (right || last)
		display_append(out, words, length, width);
	else
		display_append_padded(out, words, length, width);
}

static void append_row(
	const struct table *t, const struct table_cell *row, const size_t *widths, bool colored, struct text *out)
{
	size_t last = 0;
	for (size_t c = 0; c < t->num_columns; c++)
		if (widths[c] && (!row || row[c].words[0]))
			last = c;
	bool first = true;
	for (size_t c = 0; c <= last; c++) {
		if (!widths[c])
			continue;
		cleanup_(text_finish) struct text cell = {0};
		append_cell(&cell, row ? row[c].words : t->columns[c].title, widths[c], t->columns[c].right, c == last);
		text_append_string(out, first ? "" : "  ");
		terminal_paint(out, colored, row ? row[c].color : TERMINAL_BOLD, text_string(&cell));
		if (text_error(&cell))
			out->error = text_error(&cell);
		first = false;
	}
	text_append_char(out, '\n');
}

int table_print(const struct table *t, size_t width, bool colored, struct text *out)
{
	size_t widths[TABLE_MAX_COLUMNS];
	if (t->error)
		return t->error;
	measure(t, width, widths);
	append_row(t, NULL, widths, colored, out);
	for (size_t i = 0; i + t->num_columns <= t->num_cells; i += t->num_columns)
		append_row(t, t->cells + i, widths, colored, out);
	return text_error(out);
}
