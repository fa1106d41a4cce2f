/* SPDX-License-Identifier: MIT */
#include "view/panel/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/display.h"
#include "base/file.h"
#include "base/terminal_text.h"
#include "view/panel/panel.h"

/* A longer line is broken here. */
#define LONGEST_LINE ((size_t)16 * 1024)
/* Calls of capture_read() per frame: programs may print faster than a terminal can show. */
#define READS_PER_FRAME 4
/*
 * At the end, if a child keeps the pipe open: how long the pipe must be silent, how long to wait in total, and how much
 * to read. Time spent writing to a slow terminal is not counted.
 */
#define SILENCE_NS    (200 * NS_PER_MS)
#define END_WAIT_NS   NS_PER_S
#define END_READ_MOST ((size_t)2 << 20)

static bool same_terminal(int a, int b)
{
	struct stat x, y;
	return isatty(a) && isatty(b) && fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_rdev == y.st_rdev;
}

int capture_begin(struct capture *c, int terminal_fd)
{
	*c = (struct capture){.fd = -1, .terminal_fd = terminal_fd, .saved = {-1, -1, -1}};
	bool wanted[3] = {false, same_terminal(STDOUT_FILENO, terminal_fd), same_terminal(STDERR_FILENO, terminal_fd)};
	if (!wanted[1] && !wanted[2])
		return 0;
	int fds[2];
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	cleanup_(closep) int write_end = fds[1];
	c->fd = fds[0];
	fcntl(c->fd, F_SETFL, O_NONBLOCK);
	/* Flush earlier output to the terminal. Keep stdout line-buffered, as on a terminal. */
	fflush(NULL);
	if (wanted[1])
		setvbuf(stdout, NULL, _IOLBF, 0);
	for (int fd = 1; fd <= 2; fd++) {
		if (!wanted[fd])
			continue;
		c->saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		if (c->saved[fd] < 0 || dup2(write_end, fd) < 0) {
			int e = -errno;
			capture_end(c);
			return e;
		}
	}
	return 0;
}

static void restore(struct capture *c)
{
	for (int fd = 1; fd <= 2; fd++) {
		if (c->saved[fd] < 0)
			continue;
		dup2(c->saved[fd], fd);
		close(c->saved[fd]);
		c->saved[fd] = -1;
	}
}

/* The length of an escape sequence that is not a color. */
static size_t sequence_length(const char *s, size_t size)
{
	size_t i = 2;
	if (size < 2)
		return 1;
	if (s[1] == ']') { /* a title: ends with the bell or its own terminator */
		while (i < size && s[i] != '\a' && s[i] != '\033')
			i++;
		return i < size ? i + (s[i] == '\033' && i + 1 < size ? 2 : 1) : i;
	}
	if (s[1] != '[')
		return 2;
	while (i < size && (unsigned char)s[i] < 0x40)
		i++;
	return i < size ? i + 1 : i;
}

void capture_clean(struct text *to, const char *line, size_t size)
{
	bool colored = false;
	while (size && line[size - 1] == '\r')
		size--;
	for (size_t i = size; i > 0; i--)
		if (line[i - 1] == '\r') {
			line += i;
			size -= i;
			break;
		}
	for (size_t i = 0; i < size;) {
		size_t color = terminal_text_color(line + i, size - i);
		if (color) {
			text_append(to, line + i, color);
			colored = true;
			i += color;
		} else if (line[i] == '\033') {
			i += sequence_length(line + i, size - i);
		} else if ((unsigned char)line[i] >= 0x20) {
			i += display_append_first(to, line + i, size - i);
		} else {
			if (line[i] == '\t')
				text_append_char(to, '\t');
			i++;
		}
	}
	if (colored)
		text_append_string(to, "\033[0m");
}

static void take_lines(struct capture *c, struct text *lines, bool all)
{
	size_t begin = 0;
	for (const char *end; begin < c->line.length; begin = (size_t)(end - c->line.data) + 1) {
		end = memchr(c->line.data + begin, '\n', c->line.length - begin);
		if (!end)
			break;
		capture_clean(lines, c->line.data + begin, (size_t)(end - c->line.data) - begin);
		text_append_char(lines, '\n');
	}
	size_t left = c->line.length - begin;
	if (left && (all || left > LONGEST_LINE)) {
		capture_clean(lines, c->line.data + begin, left);
		text_append_char(lines, '\n');
		left = 0;
	}
	memmove(c->line.data, c->line.data + c->line.length - left, left);
	c->line.length = left;
}

bool capture_read(struct capture *c, struct text *lines, bool all)
{
	char bytes[16 * 1024];
	bool any = false;
	/* Limited: programs may print faster than a terminal can show. */
	for (int i = 0; i < 16 && c->fd >= 0; i++) {
		ssize_t n = read(c->fd, bytes, sizeof(bytes));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		text_append(&c->line, bytes, (size_t)n);
		any = true;
		if (text_error(&c->line)) {
			text_finish(&c->line);
			return true;
		}
	}
	if (c->line.length && (any || all))
		take_lines(c, lines, all);
	return any;
}

void capture_print(struct capture *c, struct panel *p)
{
	cleanup_(text_finish) struct text lines = {0};
	for (int i = 0; i < READS_PER_FRAME && capture_read(c, &lines, false); i++)
		;
	if (text_error(&lines) == 0)
		panel_print(p, text_string(&lines), lines.length);
}

/* True if there is something to read; false at the end of the pipe, or after a timeout. Adds to *waited_ns. */
static bool wait_for_more(int fd, uint64_t *waited_ns)
{
	struct pollfd p = {fd, POLLIN, 0};
	uint64_t begin_ns = clock_now_ns(), left_ns = END_WAIT_NS - *waited_ns;
	uint64_t silent_ns = begin_ns + (left_ns < SILENCE_NS ? left_ns : SILENCE_NS);
	int r;
	do
		r = poll(&p, 1, clock_ms_until(silent_ns, clock_now_ns()));
	while (r < 0 && errno == EINTR);
	*waited_ns += clock_now_ns() - begin_ns;
	return r > 0 && (p.revents & POLLIN);
}

/*
 * The write ends of this process are closed, but a write that had begun keeps the pipe
 * open until it returns. So the end of the pipe proves that no thread is writing.
 */
static void drain(struct capture *c)
{
	uint64_t waited_ns = 0;
	size_t done = 0;
	bool more;
	do {
		cleanup_(text_finish) struct text lines = {0};
		more = waited_ns < END_WAIT_NS && done < END_READ_MOST && wait_for_more(c->fd, &waited_ns);
		capture_read(c, &lines, !more);
		if (text_error(&lines) == 0)
			(void)file_write_all(c->terminal_fd, text_string(&lines), lines.length);
		done += lines.length;
	} while (more);
}

void capture_end(struct capture *c)
{
	restore(c);
	if (c->fd >= 0)
		drain(c);
	closep(&c->fd);
	c->fd = -1;
	text_finish(&c->line);
}
