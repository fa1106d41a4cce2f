/* SPDX-License-Identifier: MIT */
/*
 * What a program and its children print on the terminal, as lines for the panel.
 *
 * Standard output and error lead through a pipe while it lasts. Each line is shown
 * as a terminal would leave it: of a line that was written over (\r), the last state;
 * colours stay, other sequences and control characters go.
 */
#ifndef VIEW_PANEL_CAPTURE_H
#define VIEW_PANEL_CAPTURE_H

#include <stdbool.h>

#include "base/text.h"

struct panel;

struct capture {
	int fd;       /* where to read; -1: nothing is captured */
	int saved[3]; /* what 1 and 2 were; -1: left alone */
	struct text line;
};

/* Takes those of standard output and error that are the same terminal as `terminal_fd`. */
int capture_begin(struct capture *c, int terminal_fd);
/* As they were. What is still in the pipe can be read. */
void capture_restore(struct capture *c);
/* Appends the lines that are complete; with `all` also one that is not. False: nothing was there. */
bool capture_read(struct capture *c, struct text *lines, bool all);
/* Reads all there is and prints it above the panel; arguments as for capture_read(). */
void capture_print(struct capture *c, struct panel *p, bool all);
void capture_end(struct capture *c);

/* For capture_read(): one line of others, without its newline, as it may stand above a panel. */
void capture_clean(struct text *to, const char *line, size_t size);

#endif
