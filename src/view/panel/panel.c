/* SPDX-License-Identifier: MIT */
#include "view/panel/panel.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "view/panel/layout.h"
#include "view/panel/panel_guard.h"

#define REFRESH_NS (NS_PER_S / 4)
#define PLAIN_NS   (10 * NS_PER_S)
/* Bytes that wait for the next frame; more bytes trigger a frame. */
#define ABOVE_ROOM ((size_t)32 * 1024)
/* Bytes that wait for a blocked terminal; further lines are only counted. */
#define ABOVE_MOST ((size_t)1 << 20)

struct panel {
	int fd;
	enum panel_mode mode;
	uint64_t refresh_ns, plain_ns;
	uint64_t due_ns;
	bool guarded;

	/* Live. */
	struct text shown; /* the lines on the screen, each with a newline */
	size_t lines;      /* their number; 0: nothing is drawn, the cursor is visible */
	struct winsize size;
	struct text frame; /* the lines of the next frame */
	struct text above; /* lines that wait for the next frame */
	uint64_t unsaid;   /* lines dropped for lack of space */
	struct text out;   /* bytes for the terminal… */
	size_t written;    /* …of which this many are written */

	/* Plain. */
	uint64_t line_version;
	bool said;
};

enum panel_mode panel_auto_mode(int fd)
{
	const char *no_color = getenv("NO_COLOR");
	const char *term = getenv("TERM");
	if (!isatty(fd) || (no_color && *no_color) || !term || !*term || strcmp(term, "dumb") == 0)
		return PANEL_PLAIN;
	return PANEL_LIVE;
}

struct panel *panel_create(const struct panel_options *o)
{
	struct panel *p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->fd = o->fd;
	p->mode = o->mode == PANEL_AUTO ? panel_auto_mode(o->fd) : o->mode;
	p->refresh_ns = o->refresh_ns ? o->refresh_ns : REFRESH_NS;
	p->plain_ns = o->plain_ns ? o->plain_ns : PLAIN_NS;
	if (p->mode == PANEL_LIVE) {
		p->guarded = panel_guard_begin(p->fd);
		/* Only one live panel per terminal. */
		if (!p->guarded)
			p->mode = PANEL_PLAIN;
	}
	return p;
}

enum panel_mode panel_mode(const struct panel *p)
{
	return p->mode;
}

uint64_t panel_due_ns(const struct panel *p)
{
	return p->due_ns;
}

/* ---- Bytes for the terminal --------------------------------------------------------- */

/* True when everything is written. Waits for a blocked terminal only if `wait`. */
static bool flush_out(struct panel *p, bool wait)
{
	struct pollfd poller = {p->fd, POLLOUT, 0};
	while (p->written < p->out.length) {
		if (!wait && poll(&poller, 1, 0) <= 0)
			return false;
		ssize_t n = write(p->fd, p->out.data + p->written, p->out.length - p->written);
		if (n > 0)
			p->written += (size_t)n;
		else if (n < 0 && errno == EAGAIN)
			poll(&poller, 1, wait ? -1 : 0);
		else if (n < 0 && errno != EINTR)
			break; /* the terminal is gone */
	}
	text_clear(&p->out);
	p->written = 0;
	return true;
}

/* In the background the terminal belongs to another process group; without a controlling terminal, just draw. */
static bool in_foreground(const struct panel *p)
{
	pid_t group = tcgetpgrp(p->fd);
	return group < 0 || group == getpgrp();
}

/* ---- Frames --------------------------------------------------------------------------- */

static void compose(struct panel *p, const struct view_model *m, uint64_t now_ns)
{
	struct layout_options o = {.width = p->size.ws_col, .height = p->size.ws_row, .color = true, .now_ns = now_ns};
	text_clear(&p->frame);
	layout_panel(&p->frame, m, &o);
}

static size_t line_length(const char *line, const char *end)
{
	const char *newline = memchr(line, '\n', (size_t)(end - line));
	return newline ? (size_t)(newline - line) : (size_t)(end - line);
}

static size_t count_lines(const struct text *t)
{
	size_t count = 0;
	for (size_t i = 0; i < t->length; i++)
		count += t->data[i] == '\n';
	return count;
}

static void up(struct text *out, size_t lines)
{
	text_append_char(out, '\r');
	if (lines)
		text_appendf(out, "\033[%zuA", lines);
}

/* From the panel's first line on: overwrites lines that differ, leaves or erases the rest of the screen. */
static void write_changes(struct panel *p)
{
	struct text *out = &p->out;
	const char *now = text_string(&p->frame), *now_end = now + p->frame.length;
	const char *old = text_string(&p->shown), *old_end = old + p->shown.length;
	size_t lines = count_lines(&p->frame), passed = 0;
	for (size_t i = 0; i < lines; i++) {
		size_t length = line_length(now, now_end), old_length = old < old_end ? line_length(old, old_end) : 0;
		bool there = i < p->lines;
		if (!there || length != old_length || memcmp(now, old, length) != 0) {
			/* Move down over unchanged lines; below the old panel, the newline creates the line and may
			 * scroll. */
			for (; passed < i; passed++)
				text_append_string(out, "\n");
			text_append_char(out, '\r');
			text_append(out, now, length);
			text_append_string(out, "\033[K");
		}
		now += length + 1;
		old += there ? old_length + 1 : 0;
	}
	if (p->lines > lines && lines) {
		for (; passed < lines; passed++)
			text_append_string(out, "\n");
		text_append_string(out, "\r\033[J");
	}
	up(out, passed);
}

static void remember(struct panel *p)
{
	struct text t = p->shown;
	p->shown = p->frame;
	p->frame = t;
	p->lines = count_lines(&p->shown);
}

static void forget(struct panel *p)
{
	p->lines = 0;
	text_clear(&p->shown);
}

/*
 * Erases everything from the panel's first line on. In two steps: if a screen is erased from its first line, tmux keeps
 * a copy in its history.
 */
static void erase(struct text *out)
{
	text_append_string(out, "\r\033[K\n\r\033[J\033[A");
}

#define SYNC_BEGIN "\033[?2026h"
#define SYNC_END   "\033[?2026l"

/* Puts the frame on the screen, below the waiting lines. */
static void put_frame(struct panel *p)
{
	bool first = p->lines == 0;
	text_append_string(&p->out, SYNC_BEGIN);
	if (first)
		text_append_string(&p->out, "\033[?25l");
	if (p->above.length) {
		if (!first)
			erase(&p->out);
		text_append(&p->out, p->above.data, p->above.length);
		text_clear(&p->above);
		forget(p);
	}
	write_changes(p);
	text_append_string(&p->out, SYNC_END);
	remember(p);
	panel_guard_lines(p->lines);
}

static bool same_frame(const struct panel *p)
{
	return p->lines && p->frame.length == p->shown.length &&
	       memcmp(text_string(&p->frame), text_string(&p->shown), p->frame.length) == 0;
}

/* After a resize, erase: everything from the cursor on was ours, however the terminal has wrapped it. */
static void look_at_size(struct panel *p)
{
	struct winsize size = {0};
	if (ioctl(p->fd, TIOCGWINSZ, &size) < 0 || !size.ws_col || !size.ws_row)
		size = (struct winsize){.ws_row = 24, .ws_col = 80};
	if (p->lines && (size.ws_col != p->size.ws_col || size.ws_row != p->size.ws_row)) {
		erase(&p->out);
		forget(p);
	}
	p->size = size;
}

/* Prints the waiting lines without a panel below them. */
static void print_alone(struct panel *p)
{
	text_append(&p->out, p->above.data, p->above.length);
	text_clear(&p->above);
}

static void draw_live(struct panel *p, const struct view_model *m, uint64_t now_ns, bool wait)
{
	if (!flush_out(p, wait))
		return;
	if (panel_guard_was_left())
		forget(p);
	if (in_foreground(p)) {
		look_at_size(p);
		compose(p, m, now_ns);
		if (!text_error(&p->frame) && (p->above.length || !same_frame(p)))
			put_frame(p);
	} else if (p->above.length) {
		print_alone(p);
	}
	if (text_error(&p->out)) {
		text_finish(&p->out);
		p->written = 0;
		forget(p);
	}
	flush_out(p, wait);
}

/* ---- Plain lines ------------------------------------------------------------------------ */

static void draw_plain(struct panel *p, const struct view_model *m, uint64_t now_ns, bool last)
{
	if (p->said && view_version(m) == p->line_version)
		return;
	if (!last && poll(&(struct pollfd){p->fd, POLLOUT, 0}, 1, 0) <= 0)
		return;
	cleanup_(text_finish) struct text line = {0};
	layout_line(&line, m, now_ns);
	text_append_char(&line, '\n');
	if (text_error(&line) == 0)
		(void)file_write_all(p->fd, line.data, line.length);
	p->line_version = view_version(m);
	p->said = true;
}

/* ---- Both ---------------------------------------------------------------------------------- */

void panel_draw(struct panel *p, const struct view_model *m, uint64_t now_ns)
{
	if (p->mode != PANEL_OFF && now_ns >= p->due_ns)
		panel_draw_now(p, m, now_ns);
}

void panel_draw_now(struct panel *p, const struct view_model *m, uint64_t now_ns)
{
	if (p->mode == PANEL_OFF)
		return;
	/* The first plain line is not due at once: for short work, the last line is enough. */
	bool first = p->due_ns == 0;
	p->due_ns = now_ns + (p->mode == PANEL_LIVE ? p->refresh_ns : p->plain_ns);
	if (p->mode == PANEL_LIVE)
		draw_live(p, m, now_ns, false);
	else if (!first)
		draw_plain(p, m, now_ns, false);
}

/* Draws the last panel again, further down. */
static void put_again(struct panel *p, bool wait)
{
	if (!flush_out(p, wait))
		return;
	if (panel_guard_was_left())
		forget(p);
	text_clear(&p->frame);
	text_append(&p->frame, p->shown.data, p->shown.length);
	if (p->lines && in_foreground(p))
		put_frame(p);
	else
		print_alone(p);
	flush_out(p, wait);
}

static void queue_lines(struct panel *p, const char *lines, size_t size)
{
	if (p->above.length >= ABOVE_MOST) {
		p->unsaid++;
		return;
	}
	if (p->unsaid)
		text_appendf(&p->above, "%llu lines omitted\n", (unsigned long long)p->unsaid);
	p->unsaid = 0;
	text_append(&p->above, lines, size);
	if (lines[size - 1] != '\n')
		text_append_char(&p->above, '\n');
	if (text_error(&p->above))
		text_finish(&p->above);
}

void panel_print(struct panel *p, const char *lines, size_t size)
{
	if (!size)
		return;
	if (p->mode != PANEL_LIVE) {
		(void)file_write_all(p->fd, lines, size);
		return;
	}
	queue_lines(p, lines, size);
	if (p->above.length >= ABOVE_ROOM)
		put_again(p, false);
}

static void leave_picture(struct panel *p)
{
	if (!p->lines || panel_guard_was_left())
		return;
	text_append_char(&p->out, '\r');
	for (size_t i = 0; i < p->lines; i++)
		text_append_char(&p->out, '\n');
	text_append_string(&p->out, "\033[?25h");
	panel_guard_show_keys();
	flush_out(p, true);
	panel_guard_lines(0);
}

void panel_destroy(struct panel *p, const struct view_model *m, uint64_t now_ns)
{
	if (!p)
		return;
	if (m && p->mode == PANEL_LIVE)
		draw_live(p, m, now_ns, true);
	else if (m && p->mode == PANEL_PLAIN)
		draw_plain(p, m, now_ns, true);
	if (p->mode == PANEL_LIVE) {
		if (p->above.length)
			put_again(p, true);
		flush_out(p, true);
		leave_picture(p);
	}
	if (p->guarded)
		panel_guard_end();
	text_finish(&p->above);
	text_finish(&p->shown);
	text_finish(&p->frame);
	text_finish(&p->out);
	free(p);
}
