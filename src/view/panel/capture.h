/* SPDX-License-Identifier: MIT */
/*
 * Shows what a program and its children print on the terminal as lines above the panel.
 *
 * Between capture_begin() and capture_end() standard output and error lead into a pipe.
 * Each line is shown as a terminal would leave it: of a line that was written over (\r),
 * the last state; colors stay, other sequences and control characters go.
 *
 * Nothing here writes to the pipe or takes the lock of stdout while the pipe is open:
 * a thread that waits for room in the pipe holds that lock, and only a reader frees it.
 */
#ifndef VIEW_PANEL_CAPTURE_H
#define VIEW_PANEL_CAPTURE_H

#include <stdbool.h>

#include "base/text.h"

struct panel;

struct capture {
	int fd;          /* where to read; -1: nothing is captured */
	int terminal_fd; /* the caller's */
	int saved[3];    /* what 1 and 2 were; -1: left alone */
	struct text line;
};

/* Takes those of standard output and error that are the same terminal as `terminal_fd`; keep it open until the end. */
int capture_begin(struct capture *c, int terminal_fd);
/* Appends the lines that are complete; with `all` also one that is not. False: nothing was there. */
bool capture_read(struct capture *c, struct text *lines, bool all);
/* Reads the complete lines and prints them above the panel: as many as a frame can take. */
void capture_print(struct capture *c, struct panel *p);
/*
 * Gives standard output and error back, then writes the rest of the pipe to the terminal:
 * call it when the panel is over. Reads until every write that had begun is complete. A
 * child that keeps the pipe open is not waited for.
 */
void capture_end(struct capture *c);

/* For capture_read(): one line of others, without its newline, as it may stand above a panel. */
void capture_clean(struct text *to, const char *line, size_t size);

#endif
