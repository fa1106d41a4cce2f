/* SPDX-License-Identifier: MIT */
/*
 * A table for the terminal: columns as wide as their widest cell, two spaces
 * between them, the flexible one cut with an ellipsis if it does not fit.
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
	bool gives_way; /* is cut first; one column of a table */
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
void table_cell(struct table *t, enum colour colour, const char *words);
void table_cellf(struct table *t, enum colour colour, const char *format, ...) GD_PRINTF(3, 4);

/* Columns that are empty or "-" in every row are left out. 0 or -ENOMEM. */
int table_print(const struct table *t, size_t width, bool coloured, struct text *out);

#endif
