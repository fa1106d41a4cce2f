/* SPDX-License-Identifier: MIT */
#include "base/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define USUAL_WIDTH  80
#define USUAL_HEIGHT 24

bool terminal_has_color(void)
{
	const char *no_color = getenv("NO_COLOR");
	const char *term = getenv("TERM");
	return isatty(STDOUT_FILENO) && !(no_color && *no_color) && term && *term && strcmp(term, "dumb") != 0;
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

void terminal_paint(struct text *out, bool colored, enum terminal_color color, const char *words)
{
	static const char *const codes[] = {
		[TERMINAL_NONE] = "",
		[TERMINAL_BOLD] = "\033[1m",
		[TERMINAL_DIM] = "\033[2m",
		[TERMINAL_RED] = "\033[31m",
		[TERMINAL_GREEN] = "\033[32m",
		[TERMINAL_YELLOW] = "\033[33m",
	};
	bool paint = colored && color != TERMINAL_NONE;
	if (paint)
		text_append_string(out, codes[color]);
	text_append_string(out, words);
	if (paint)
		text_append_string(out, "\033[0m");
}
