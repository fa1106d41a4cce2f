/* SPDX-License-Identifier: MIT */
/*
 * A table for the terminal. Columns are as wide as their widest cell, with two spaces between them; if the table is too
 * wide, one column is truncated with an ellipsis.
 */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/terminal.h"
#include "base/text.h"

#define TABLE_MAX_COLUMNS 12

struct table_column {
	const char *title;
	bool right;     /* right-aligned, for numbers */
	bool gives_way; /* is truncated if the table is too wide; at most one column */
};

struct table {
	const struct table_column *columns;
	size_t num_columns;
	struct table_cell *cells;
	size_t num_cells, capacity;
	int error;
};

void table_finish(struct table *t);

/* Adds the next cell, row by row; NULL or "" leaves it empty. The text is copied and made safe for a terminal. */
void table_cell(struct table *t, enum terminal_color color, const char *words);
void table_cellf(struct table *t, enum terminal_color color, const char *format, ...) GD_PRINTF(3, 4);

/* Prints the table. Omits columns that are empty or "-" in every row. Returns 0 or -ENOMEM. */
int table_print(const struct table *t, size_t width, bool colored, struct text *out);

#endif
