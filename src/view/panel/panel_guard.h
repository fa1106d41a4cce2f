/* SPDX-License-Identifier: MIT */
/*
 * Restores the terminal when the program ends without destroying the panel: by exit(), by a fatal signal, or when it is
 * stopped (Ctrl-Z).
 *
 * Signals are handled only if the program has left their default action in place, and only while a live panel exists.
 * The default action is taken afterwards. SIGINT and SIGTERM belong to base/interrupts.h, which calls the guard before
 * they end the program. Only one panel at a time can be guarded.
 */
#ifndef VIEW_PANEL_PANEL_GUARD_H
#define VIEW_PANEL_PANEL_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* False if another panel is already guarded. */
bool panel_guard_begin(int fd);
void panel_guard_end(void);

/*
 * Sets the number of panel lines on the screen; 0: nothing to restore. While there are lines, the cursor is hidden and
 * echo is off.
 */
void panel_guard_lines(size_t lines);

/* Turns echo on again, before the end of the panel becomes visible. */
void panel_guard_show_keys(void);

/* Whether the terminal was restored meanwhile (stopped and continued): no panel lines are below the cursor. */
bool panel_guard_was_left(void);

/*
 * For a drawing thread: between the two calls, bytes that it has read from the pipe of panel_guard_drain() are on
 * their way to the terminal, and a dying program waits for the thread, at most one second. False: the program is dying,
 * and nothing may be drawn.
 */
bool panel_guard_enter(void);
void panel_guard_exit(void);

/* A pipe whose content would be lost with the program: a dying program writes it to the terminal. Valid until
 * panel_guard_end().
 */
void panel_guard_drain(int pipe_fd);

#endif
