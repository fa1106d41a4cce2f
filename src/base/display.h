/* SPDX-License-Identifier: MIT */
/*
 * Makes bytes from other sources (commands, names) safe to show on a terminal.
 *
 * The output cannot move the cursor, change a color or reorder the line: control characters, bytes that are not UTF-8
 * and invisible characters of Unicode (direction marks, zero-width characters) appear as \n, \x1b, \u202e. Text is
 * always UTF-8, and its width is counted in columns of the terminal, regardless of the locale of the caller.
 */
#ifndef BASE_DISPLAY_H
#define BASE_DISPLAY_H

#include <stddef.h>

#include "base/text.h"

/* The number of columns that display_append() would use without a limit. */
size_t display_width(const void *data, size_t size);

/*
 * Appends at most max_columns columns. If the text is longer, it is truncated and the last column is an ellipsis.
 * Returns the columns used, which may be one less than the limit if a double-width character did not fit.
 */
size_t display_append(struct text *t, const void *data, size_t size, size_t max_columns);

/* Appends the first character alone. Returns how many bytes it has; size is at least 1. */
size_t display_append_first(struct text *t, const void *data, size_t size);

/* Appends spaces from column `used` up to `columns`. */
void display_pad(struct text *t, size_t used, size_t columns);

/* display_append(), padded with spaces to exactly `columns`. */
void display_append_padded(struct text *t, const void *data, size_t size, size_t columns);

/*
 * The position at which to begin if a command is shown only from about `at` on: the beginning of that word or, for the
 * value of an option, of the option: "… --seed 7".
 */
size_t display_word_start(const char *command, size_t at);

/* For error messages: the first 40 columns or so of a string, in a buffer. Returns buf. */
#define DISPLAY_QUOTE_ROOM 128
const char *display_quote(const char *string, char buf[DISPLAY_QUOTE_ROOM]);

/* Value of max_columns for no limit. */
#define DISPLAY_ALL ((size_t)-1)

#endif
