/* SPDX-License-Identifier: MIT */
/*
 * Shows the output of a program and its children as lines above the panel.
 *
 * Between capture_begin() and capture_end(), standard output and error are redirected to a pipe. Each line is shown as
 * a terminal would leave it: if a line was overwritten (\r), its last state is shown. Colors are kept; other sequences
 * and control characters are removed.
 *
 * Nothing here writes to the pipe or takes the lock of stdout while the pipe is open:
 * a thread that waits for space in the pipe holds that lock until the pipe is read.
 */
#ifndef VIEW_PANEL_CAPTURE_H
#define VIEW_PANEL_CAPTURE_H

#include <stdbool.h>

#include "base/text.h"

struct panel;

struct capture {
	int fd;          /* read end of the pipe; -1: nothing is captured */
	int terminal_fd; /* the caller's */
	int saved[3];    /* copies of descriptors 1 and 2; -1: not redirected */
	struct text line;
};

/* Redirects standard output and error if they are the same terminal as `terminal_fd`; keep it open until the end. */
int capture_begin(struct capture *c, int terminal_fd);
/* Appends the complete lines; with `all`, also an incomplete one. False: there was no data. */
bool capture_read(struct capture *c, struct text *lines, bool all);
/* Reads complete lines and prints them above the panel, as many as fit into a frame. */
void capture_print(struct capture *c, struct panel *p);
/*
 * Restores standard output and error, then writes the rest of the pipe to the terminal: call it after the panel has
 * ended. Reads until every write in progress is complete. Does not wait for a child that keeps the pipe open.
 */
void capture_end(struct capture *c);

/* For capture_read(): makes one captured line, without its newline, safe to show above a panel. */
void capture_clean(struct text *to, const char *line, size_t size);

#endif
