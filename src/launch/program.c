/* SPDX-License-Identifier: MIT */
#include "launch/program.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define LAST_WORDS_MS 2000 /* how long it may take to exit after closing its output */

int program_start(struct program *p, char *const argv[])
{
	text_clear(&p->in);
	text_clear(&p->out);
	p->sent = p->taken = p->searched = 0;
	p->skipping = p->closed = false;
	return child_start(&p->child, argv, true);
}

static bool has_ended(const struct program *p)
{
	return pidref_wait(&p->child.process, 0);
}

bool program_lives(struct program *p)
{
	return pidref_is_set(&p->child.process) && !p->closed && !has_ended(p);
}

/* ---- Sending ------------------------------------------------------------ */

static void close_input(struct program *p)
{
	close_fd(&p->child.in);
	text_clear(&p->out);
	p->sent = 0;
}

/* Sends as much as the program takes now. A program that closed its input may still send lines. */
static void send_some(struct program *p)
{
	while (p->sent < p->out.length && p->child.in >= 0) {
		ssize_t n = write(p->child.in, p->out.data + p->sent, p->out.length - p->sent);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			close_input(p);
			return;
		}
		p->sent += (size_t)n;
	}
	text_clear(&p->out);
	p->sent = 0;
}

/* ---- Receiving ---------------------------------------------------------- */

static void forget_taken(struct program *p)
{
	memmove(p->in.data, p->in.data + p->taken, p->in.length - p->taken);
	p->in.length -= p->taken;
	p->searched -= p->taken;
	p->taken = 0;
}

static int receive_some(struct program *p)
{
	char buf[16384];
	ssize_t n;
	do {
		n = read(p->child.out, buf, sizeof(buf));
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0) {
		p->closed = true;
		return 0;
	}
	if (p->taken)
		forget_taken(p);
	text_append(&p->in, buf, (size_t)n);
	return text_error(&p->in);
}

/* Marks bytes as handed out, up to this position in `in`. */
static void take(struct program *p, size_t end)
{
	p->taken = end;
	p->searched = end;
}

/* The first newline that was not handed out, or NULL. Each byte is examined once, however long the line becomes. */
static const char *find_newline(struct program *p)
{
	size_t from = p->searched;
	p->searched = p->in.length;
	return from < p->in.length ? memchr(p->in.data + from, '\n', p->in.length - from) : NULL;
}

/* The next whole line that was received, if there is one. */
static int next_line(struct program *p, const char **ret_line, size_t *ret_size)
{
	for (;;) {
		size_t have = p->in.length - p->taken;
		const char *line = have ? p->in.data + p->taken : "";
		const char *newline = find_newline(p);
		if (p->skipping) {
			take(p, newline ? (size_t)(newline + 1 - p->in.data) : p->in.length);
			p->skipping = !newline;
			if (!newline)
				return PROGRAM_NOTHING;
			continue;
		}
		/* The last line may have no newline. */
		size_t size = newline ? (size_t)(newline - line) : have;
		if (!newline && size <= p->line_max && !(p->closed && size))
			return PROGRAM_NOTHING;
		take(p, p->taken + (newline ? size + 1 : size));
		p->skipping = !newline && !p->closed;
		*ret_line = line;
		*ret_size = size < p->line_max ? size : p->line_max;
		return size > p->line_max ? PROGRAM_LONG_LINE : PROGRAM_LINE;
	}
}

int program_talk(struct program *p, int timeout_ms, const char **ret_line, size_t *ret_size)
{
	if (text_error(&p->out))
		return text_error(&p->out);
	send_some(p);
	bool last_look = false;
	for (;;) {
		int r = next_line(p, ret_line, ret_size);
		if (r != PROGRAM_NOTHING)
			return r;
		if (p->closed || last_look)
			return PROGRAM_ENDED;
		struct pollfd fds[] = {
			{.fd = p->child.out, .events = POLLIN},
			{.fd = p->child.log, .events = POLLIN},
			{.fd = p->child.process.fd, .events = POLLIN},
			{.fd = p->sent < p->out.length ? p->child.in : -1, .events = POLLOUT},
		};
		int n = pidref_poll(&p->child.process, fds, 4, &fds[2], timeout_ms);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n <= 0)
			return PROGRAM_NOTHING;
		if (fds[1].revents)
			child_read_log(&p->child);
		if (fds[3].revents)
			send_some(p);
		if (fds[0].revents && (r = receive_some(p)) < 0)
			return r;
		/* Other processes may hold its output open; everything it wrote itself has been received. */
		last_look = fds[2].revents && !fds[0].revents;
	}
}

/* ---- The end ------------------------------------------------------------ */

static void wait_for_end(struct program *p, uint64_t deadline_ns)
{
	for (;;) {
		struct pollfd fds[] = {
			{.fd = p->child.process.fd, .events = POLLIN},
			{.fd = p->child.log, .events = POLLIN},
			{.fd = p->closed ? -1 : p->child.out, .events = POLLIN},
		};
		int timeout_ms = deadline_ns == UINT64_MAX ? -1 : clock_ms_until(deadline_ns, clock_now_ns());
		int n = pidref_poll(&p->child.process, fds, 3, &fds[0], timeout_ms);
		if ((n < 0 && errno != EINTR) || n == 0 || (n > 0 && fds[0].revents))
			return;
		if (n > 0 && fds[1].revents)
			child_read_log(&p->child);
		if (n > 0 && fds[2].revents && receive_some(p) == 0)
			take(p, p->in.length); /* discard: it is no longer needed */
	}
}

void program_leave(struct program *p)
{
	if (!pidref_is_set(&p->child.process))
		return;
	close_input(p);
	wait_for_end(p, UINT64_MAX);
	child_end(&p->child);
}

void program_end(struct program *p)
{
	child_end(&p->child);
	text_finish(&p->in);
	text_finish(&p->out);
	*p = PROGRAM_NONE;
}

void program_end_words(struct program *p, char *to, size_t room)
{
	close_input(p);
	wait_for_end(p, clock_now_ns() + LAST_WORDS_MS * NS_PER_MS);
	bool by_itself = has_ended(p);
	child_end(&p->child);
	if (by_itself)
		child_words(&p->child, to, room);
	else
		snprintf(to, room, "it closed its standard output but did not exit");
}
