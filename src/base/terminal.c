/* SPDX-License-Identifier: MIT */
#include "base/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define USUAL_WIDTH  80
#define USUAL_HEIGHT 24

bool terminal_has_colour(void)
{
	const char *no_colour = getenv("NO_COLOR");
	const char *term = getenv("TERM");
	return isatty(STDOUT_FILENO) && !(no_colour && *no_colour) && term && *term && strcmp(term, "dumb") != 0;
}

size_t terminal_width(void)
{
	struct winsize size;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		return size.ws_col;
	return USUAL_WIDTH;
}

size_t terminal_height(void)
{
	struct winsize size;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0)
		return size.ws_row;
	return USUAL_HEIGHT;
}

void terminal_paint(struct text *out, bool coloured, enum colour colour, const char *words)
{
	static const char *const codes[] = {
		[COLOUR_NONE] = "",
		[COLOUR_BOLD] = "\033[1m",
		[COLOUR_DIM] = "\033[2m",
		[COLOUR_RED] = "\033[31m",
		[COLOUR_GREEN] = "\033[32m",
		[COLOUR_YELLOW] = "\033[33m",
	};
	bool paint = coloured && colour != COLOUR_NONE;
	if (paint)
		text_append_string(out, codes[colour]);
	text_append_string(out, words);
	if (paint)
		text_append_string(out, "\033[0m");
}
