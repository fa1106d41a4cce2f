/* SPDX-License-Identifier: MIT */
#include "base/line_output.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* Maximum number of bytes that wait for a reader. */
#define MOST_WAITING ((size_t)1 << 20)
/* A pipe or a terminal that is writable accepts at least this many bytes. */
#define PIECE_BYTES 1024

void line_output_flush(struct line_output *o, int fd, bool (*wait)(void *context, int fd), void *context)
{
	struct text *t = &o->waiting;
	struct pollfd p = {fd, POLLOUT, 0};
	size_t done = 0;
	while (done < t->length && (poll(&p, 1, 0) > 0 || (wait && wait(context, fd)))) {
		size_t left = t->length - done;
		ssize_t n = write(fd, t->data + done, left < PIECE_BYTES ? left : PIECE_BYTES);
		if (n < 0 && errno == EAGAIN && !wait)
			break;
		else if (n < 0 && errno != EINTR && errno != EAGAIN)
			done = t->length; /* nobody can read it */
		else if (n > 0)
			done += (size_t)n;
	}
	if (t->length == 0)
		return;
	if (wait)
		done = t->length;
	memmove(t->data, t->data + done, t->length - done);
	t->length -= done;
}

void line_output_add(struct line_output *o, int fd, const char *lines, size_t size)
{
	line_output_flush(o, fd, NULL, NULL);
	if (o->waiting.length >= MOST_WAITING) {
		o->left_out++;
		return;
	}
	if (o->left_out)
		text_appendf(&o->waiting, "gpuq: %llu lines omitted\n", (unsigned long long)o->left_out);
	o->left_out = 0;
	text_append(&o->waiting, lines, size);
	if (text_error(&o->waiting))
		text_finish(&o->waiting);
	line_output_flush(o, fd, NULL, NULL);
}
