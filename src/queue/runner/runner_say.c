/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_say.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "queue/journal/job_line.h"
#include "queue/runner/runner_private.h"

/* So much waits for a reader; what comes then is only counted. */
#define WORDS_ROOM ((size_t)1 << 20)
/* A pipe or a terminal that takes anything takes so much at once. */
#define PIECE_BYTES 1024
/* A runner that was told to go waits so long for a reader that takes nothing. */
#define LAST_WORDS_MS 1000

/* Whether somebody wants us gone; what has ended meanwhile is of no interest. */
static bool is_signalled(const struct runner *r)
{
	struct signalfd_siginfo si;
	while (read(r->signal_fd, &si, sizeof(si)) == sizeof(si))
		if (si.ssi_signo != SIGCHLD)
			return true;
	return false;
}

/* Waits for who reads, but not for one who does not when we were told to go. */
static bool wait_for_reader(const struct runner *r, int fd)
{
	struct pollfd fds[2] = {{fd, POLLOUT, 0}, {r->signal_fd, POLLIN, 0}};
	bool told = r->leaving || r->interrupts;
	for (;;) {
		int n = poll(fds, 2, told ? LAST_WORDS_MS : -1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || (fds[1].revents && is_signalled(r)))
			return false;
		if (fds[0].revents)
			return true;
	}
}

void runner_flush_words(struct runner *r, bool wait)
{
	size_t done = 0;
	if (!r->options.out || r->words.length == 0)
		return;
	struct pollfd p = {fileno(r->options.out), POLLOUT, 0};
	fflush(r->options.out);
	while (done < r->words.length && (poll(&p, 1, 0) > 0 || (wait && wait_for_reader(r, p.fd)))) {
		size_t left = r->words.length - done;
		ssize_t n = write(p.fd, r->words.data + done, left < PIECE_BYTES ? left : PIECE_BYTES);
		if (n < 0 && errno == EAGAIN && !wait)
			break;
		else if (n < 0 && errno != EINTR && errno != EAGAIN)
			done = r->words.length; /* nobody can read it */
		else if (n > 0)
			done += (size_t)n;
	}
	if (wait)
		done = r->words.length;
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
	job_line_write(&t, job, &(struct job_line_options){.id_width = 1});
	if (text_error(&t) == 0)
		runner_say(r, "%s\n", text_string(&t));
	text_finish(&t);
}
