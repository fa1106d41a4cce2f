/* SPDX-License-Identifier: MIT */
/*
 * Gives the terminal back when the program ends without having asked the panel: by
 * exit(), by a signal that ends it, or when it is stopped (Ctrl-Z).
 *
 * Signals are taken only where the program has left them to the system, and only
 * while a live panel is there. Then the default happens, as it would have. SIGINT and
 * SIGTERM belong to base/interrupts.h, which calls the guard before they end the
 * program. One panel at a time can be guarded: the terminal is one.
 */
#ifndef VIEW_PANEL_PANEL_GUARD_H
#define VIEW_PANEL_PANEL_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* False where another panel is guarded already. */
bool panel_guard_begin(int fd);
void panel_guard_end(void);

/*
 * How many lines of the panel are on the screen, 0 for none: then there is nothing to
 * give back. The cursor is hidden as long as there are some, and typed keys are not shown.
 */
void panel_guard_lines(size_t lines);

/* Typed keys are shown again: before anybody can see that the panel is over. */
void panel_guard_show_keys(void);

/* Whether the terminal was given back meanwhile (stopped and continued): nothing of the panel is under the cursor. */
bool panel_guard_was_left(void);

/*
 * For a thread that draws: between the two, what it has taken from the pipe below is on its way
 * to the terminal, and a program that dies waits for it, for a second at most. False: the
 * program is dying, and nothing may be drawn any more.
 */
bool panel_guard_enter(void);
void panel_guard_exit(void);

/* A pipe whose content would be lost with the program: it is written to the terminal as well, until panel_guard_end().
 */
void panel_guard_drain(int pipe_fd);

#endif
