/* SPDX-License-Identifier: MIT */
#include "cli/exec_notice.h"

#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/display.h"
#include "base/file.h"
#include "cli/say.h"

/* Without a terminal to redraw: minimum time between changed lines, and between equal lines. */
#define NEWS_NS  (5 * NS_PER_S)
#define AGAIN_NS (60 * NS_PER_S)

/* A job in the background must not draw over the shell's output. */
static bool can_draw(void)
{
	return isatty(STDERR_FILENO) && tcgetpgrp(STDERR_FILENO) == getpgrp();
}

static size_t width(void)
{
	struct winsize size;
	return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

static void draw(struct exec_notice *n, const char *words)
{
	cleanup_(text_finish) struct text line = {0};
	text_append_string(&line, "\r");
	/* The last column stays free: a cursor after it may be in the next line. */
	display_append(&line, words, strlen(words), width() - 1);
	text_append_string(&line, "\033[K");
	(void)file_write_all(STDERR_FILENO, text_string(&line), line.length);
	n->drawn = n->told = true;
}

void exec_notice_waiting(struct exec_notice *n, uint64_t id, size_t position, const char *words)
{
	cleanup_(text_finish) struct text t = {0};
	uint64_t now = clock_now_ns();
	if (n->quiet)
		return;
	text_appendf(&t, "job %" PRIu64 " waits", id);
	if (position)
		text_appendf(&t, ", #%zu in the queue", position);
	if (*words)
		text_appendf(&t, ": %s", words);
	bool same = n->last.length && strcmp(text_string(&n->last), text_string(&t)) == 0;
	if (can_draw()) {
		cleanup_(text_finish) struct text line = {0};
		text_appendf(&line, "gpuq: %s", text_string(&t));
		if (!same || !n->drawn)
			draw(n, text_string(&line));
	} else if (!n->told || now - n->told_ns >= (same ? AGAIN_NS : NEWS_NS)) {
		exec_notice_clear(n);
		say("%s", text_string(&t));
		n->told = true;
		n->told_ns = now;
	} else {
		return;
	}
	text_clear(&n->last);
	text_append_string(&n->last, text_string(&t));
}

void exec_notice_clear(struct exec_notice *n)
{
	if (n->drawn && can_draw())
		(void)file_write_all(STDERR_FILENO, "\r\033[K", 4);
	n->drawn = false;
}

void exec_notice_finish(struct exec_notice *n)
{
	exec_notice_clear(n);
	text_finish(&n->last);
}
