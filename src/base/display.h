/* SPDX-License-Identifier: MIT */
/*
 * Makes bytes from other sources (commands, names) safe to show in a terminal.
 *
 * Nothing that is shown can move the cursor, change a colour or reorder the
 * line: control characters, bytes that are not UTF-8 and the invisible ones of
 * Unicode (direction marks, zero-width) appear as \n, \x1b, \u202e. Width is
 * counted in columns of UTF-8, whatever the locale of the caller.
 */
#ifndef BASE_DISPLAY_H
#define BASE_DISPLAY_H

#include <stddef.h>

#include "base/text.h"

/* Columns that display_append() would use with no limit. */
size_t display_width(const void *data, size_t size);

/*
 * Appends at most max_columns columns; what does not fit is cut, the last column
 * then an ellipsis. Returns the columns used: a double-width character that
 * would be cut in half is left out, so it may be one less than the limit.
 */
size_t display_append(struct text *t, const void *data, size_t size, size_t max_columns);

/* Appends the first character alone. Returns how many bytes it has; size is at least 1. */
size_t display_append_first(struct text *t, const void *data, size_t size);

/* Spaces from column `used` up to `columns`. */
void display_pad(struct text *t, size_t used, size_t columns);

/* display_append(), and filled up with spaces to exactly `columns`. */
void display_append_padded(struct text *t, const void *data, size_t size, size_t columns);

/*
 * Where to begin when what lies before `at` in a command is left out: at the beginning of that word or, of the value of
 * an option, of the option: "… --seed 7".
 */
size_t display_word_start(const char *command, size_t at);

/* For error messages: the first 40 columns or so of a string, in a buffer. Returns buf. */
#define DISPLAY_QUOTE_ROOM 128
const char *display_quote(const char *string, char buf[DISPLAY_QUOTE_ROOM]);

/* Value of max_columns for no limit. */
#define DISPLAY_ALL ((size_t)-1)

#endif
