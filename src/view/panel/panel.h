/* SPDX-License-Identifier: MIT */
/*
 * The live panel: a few lines at the bottom of the terminal that are drawn anew in
 * place, under whatever is printed through panel_print().
 *
 *     panel_create() → panel_draw() … panel_print() … → panel_destroy()
 *
 * Between two frames the cursor, hidden, stands at the beginning of the panel's
 * first line. So a terminal that is made narrower may wrap what was drawn or cut it
 * off: everything from the cursor on is ours, and is erased. A frame is one write,
 * and holds only the lines that changed.
 *
 * Where there is no terminal, or one that wants no colours ($NO_COLOR, TERM=dumb),
 * there are plain lines instead: when something changed, every few seconds at most.
 *
 * One thread. The terminal is given back on every way out that a program can
 * notice: see panel_guard.h.
 */
#ifndef VIEW_PANEL_PANEL_H
#define VIEW_PANEL_PANEL_H

#include "view/model/model.h"

enum panel_mode {
	PANEL_AUTO = 0, /* live on a terminal that can show it, else plain */
	PANEL_LIVE,
	PANEL_PLAIN,
	PANEL_OFF, /* prints what panel_print() is given, and nothing else */
};

struct panel_options {
	int fd; /* stays the caller's */
	enum panel_mode mode;
	uint64_t refresh_ns; /* between two frames; 0: a quarter of a second */
	uint64_t plain_ns;   /* between two plain lines; 0: ten seconds */
};

struct panel;

/* NULL when memory ran out. */
struct panel *panel_create(const struct panel_options *options);

/* What "auto" means on this descriptor, in this environment. */
enum panel_mode panel_auto_mode(int fd);
enum panel_mode panel_mode(const struct panel *p);

/*
 * Draws the model as it is, if a frame is due and anything has changed. Never
 * waits for a terminal that takes nothing (Ctrl-S): then the next frame is late.
 */
void panel_draw(struct panel *p, const struct view_model *m, uint64_t now_ns);
/* The same, due or not. */
void panel_draw_now(struct panel *p, const struct view_model *m, uint64_t now_ns);
/* When panel_draw() has something to do again. */
uint64_t panel_due_ns(const struct panel *p);

/*
 * Whole lines, that stay above the panel: with its next frame, so that a thousand
 * lines a second cost four frames. Without a live panel they are written at once.
 */
void panel_print(struct panel *p, const char *lines, size_t size);

/* All of it, below or without a panel. Waits for a terminal that takes nothing; stops where nobody can see it. */
void panel_write_all(int fd, const char *bytes, size_t size);

/*
 * The last picture, or the last plain line, stays; the cursor is below it. With m
 * NULL: what was drawn last. NULL is fine.
 */
void panel_destroy(struct panel *p, const struct view_model *m, uint64_t now_ns);

#endif
