/* SPDX-License-Identifier: MIT */
/*
 * Passes output of programs on to a terminal.
 *
 * Text, newlines, tabs, carriage returns, backspaces and colors ("\033[1;31m") pass. Everything else that a terminal
 * obeys, or that changes how its neighbors look, is shown instead: \x1b[2J, \u009b, \u202e. A sequence or character
 * that is cut in two is held back until the rest comes.
 */
#ifndef BASE_TERMINAL_TEXT_H
#define BASE_TERMINAL_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

#define TERMINAL_TEXT_MAX_COLOR 64

/* Start from {0}. */
struct terminal_text {
	bool one_line; /* carriage returns and backspaces are shown, too: something of ours is before them in the line
			*/
	bool colored;  /* since the last terminal_text_end() */
	char held[TERMINAL_TEXT_MAX_COLOR];
	size_t num_held;
};

void terminal_text_append(struct terminal_text *f, struct text *to, const void *data, size_t size);
/* Appends what was held back, and resets the color. */
void terminal_text_end(struct terminal_text *f, struct text *to);

/* The length of a color sequence at this place; 0: none is here. */
size_t terminal_text_color(const char *s, size_t size);

#endif
