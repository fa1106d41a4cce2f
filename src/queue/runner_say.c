/* SPDX-License-Identifier: MIT */
#include "queue/runner_parts.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "queue/show.h"

/* So much waits for a reader; what comes then is only counted. */
#define WORDS_ROOM ((size_t)1 << 20)
/* A pipe or a terminal that takes anything takes so much at once. */
#define PIECE_BYTES 1024

void runner_flush_words(struct runner *r, bool wait)
{
	size_t done = 0;
	if (!r->options.out || r->words.length == 0)
		return;
	struct pollfd p = {fileno(r->options.out), POLLOUT, 0};
	fflush(r->options.out);
	while (done < r->words.length && (wait || poll(&p, 1, 0) > 0)) {
		size_t left = r->words.length - done;
		ssize_t n = write(p.fd, r->words.data + done, left < PIECE_BYTES ? left : PIECE_BYTES);
		if (n < 0 && errno == EAGAIN && wait)
			poll(&p, 1, -1);
		else if (n < 0 && errno == EAGAIN)
			break;
		else if (n < 0 && errno != EINTR)
			done = r->words.length; /* nobody can read it */
		else if (n > 0)
			done += (size_t)n;
	}
	memmove(r->words.data, r->words.data + done, r->words.length - done);
	r->words.length -= done;
}

void runner_say(struct runner *r, const char *format, ...)
{
	va_list args;
	if (!r->options.out)
		return;
	if (r->watch && r->watch->say) {
		struct text t = {0};
		va_start(args, format);
		text_vappendf(&t, format, args);
		va_end(args);
		if (text_error(&t) == 0)
			r->watch->say(r->watch->context, text_string(&t), t.length);
		text_finish(&t);
		return;
	}
	runner_flush_words(r, false);
	if (r->words.length >= WORDS_ROOM) {
		r->unsaid++;
		return;
	}
	if (r->unsaid)
		text_appendf(&r->words, "gpuq: %llu lines are left out\n", (unsigned long long)r->unsaid);
	r->unsaid = 0;
	va_start(args, format);
	text_vappendf(&r->words, format, args);
	va_end(args);
	if (text_error(&r->words))
		text_finish(&r->words);
	runner_flush_words(r, false);
}

void runner_tell(struct runner *r, const struct job *job)
{
	if (r->options.quiet || !r->options.out || job->state == JOB_PENDING || job->state == JOB_HELD)
		return;
	struct text t = {0};
	show_line(&t, job, &(struct show_options){.id_width = 1});
	if (text_error(&t) == 0)
		runner_say(r, "%s\n", text_string(&t));
	text_finish(&t);
}
