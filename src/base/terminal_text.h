/* SPDX-License-Identifier: MIT */
/*
 * Filters the output of programs for a terminal.
 *
 * Text, newlines, tabs, carriage returns, backspaces and colors ("\033[1;31m") are not changed. All other control
 * sequences, and characters that change how their neighbors look, are shown as text: \x1b[2J, \u009b, \u202e. An
 * incomplete sequence or character is kept until the rest arrives.
 */
#ifndef BASE_TERMINAL_TEXT_H
#define BASE_TERMINAL_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

#define TERMINAL_TEXT_MAX_COLOR 64

/* Start from {0}. */
struct terminal_text {
	bool one_line; /* carriage returns and backspaces are shown as text, too, because they could overwrite our text
			  in the same line */
	bool colored;  /* since the last terminal_text_end() */
	char held[TERMINAL_TEXT_MAX_COLOR];
	size_t num_held;
};

void terminal_text_append(struct terminal_text *f, struct text *to, const void *data, size_t size);
/* Appends an incomplete sequence that was kept, and resets the color. */
void terminal_text_end(struct terminal_text *f, struct text *to);

/* Returns the length of the color sequence at `s`; 0: there is none. */
size_t terminal_text_color(const char *s, size_t size);

#endif
