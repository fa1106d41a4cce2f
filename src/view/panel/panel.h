/* SPDX-License-Identifier: MIT */
/*
 * The live panel: a few lines at the bottom of the terminal that are redrawn in place, below the lines printed with
 * panel_print().
 *
 *     panel_create() → panel_draw() … panel_print() … → panel_destroy()
 *
 * Between two frames the hidden cursor is at the beginning of the panel's first line. So it does no harm if a
 * terminal that is made narrower wraps or cuts off the panel: everything from the cursor on is ours, and is erased. A
 * frame is one write, with only the changed lines.
 *
 * Without a terminal, or without colors ($NO_COLOR, TERM=dumb), plain lines are printed instead: after changes, at most
 * every few seconds.
 *
 * Single-threaded. The terminal is restored on every exit that a program can detect: see panel_guard.h.
 */
#ifndef VIEW_PANEL_PANEL_H
#define VIEW_PANEL_PANEL_H

#include "view/model/model.h"

enum panel_mode {
	PANEL_AUTO = 0, /* live on a terminal that can show it, otherwise plain */
	PANEL_LIVE,
	PANEL_PLAIN,
	PANEL_OFF, /* prints only the lines of panel_print() */
};

struct panel_options {
	int fd; /* stays the caller's */
	enum panel_mode mode;
	uint64_t refresh_ns; /* between two frames; 0: a quarter of a second */
	uint64_t plain_ns;   /* between two plain lines; 0: ten seconds */
};

struct panel;

/* NULL: out of memory. */
struct panel *panel_create(const struct panel_options *options);

/* The mode that PANEL_AUTO selects for this descriptor and environment. */
enum panel_mode panel_auto_mode(int fd);
enum panel_mode panel_mode(const struct panel *p);

/*
 * Draws the model if a frame is due and anything has changed. Never waits for a blocked terminal (Ctrl-S): then the
 * next frame is late.
 */
void panel_draw(struct panel *p, const struct view_model *m, uint64_t now_ns);
/* The same, due or not. */
void panel_draw_now(struct panel *p, const struct view_model *m, uint64_t now_ns);
/* When the next frame is due. */
uint64_t panel_due_ns(const struct panel *p);

/*
 * Prints whole lines above the panel, with its next frame, so that a thousand lines per second cost four frames.
 * Without a live panel they are written at once.
 */
void panel_print(struct panel *p, const char *lines, size_t size);

/*
 * Leaves the last frame or plain line in place, with the cursor below it. With m NULL, the last frame drawn. p may be
 * NULL.
 */
void panel_destroy(struct panel *p, const struct view_model *m, uint64_t now_ns);

#endif
