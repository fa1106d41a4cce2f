/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_say.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "queue/journal/job_line.h"
#include "queue/runner/runner_private.h"

/* A runner that was told to exit, or continues at another place, waits this long for a reader that does not read. */
#define LAST_WORDS_MS 1000

/* Whether a signal asks us to exit; SIGCHLD is ignored. */
static bool is_signalled(const struct runner *r)
{
	struct signalfd_siginfo si;
	while (read(r->signal_fd, &si, sizeof(si)) == sizeof(si))
		if (si.ssi_signo != SIGCHLD)
			return true;
	return false;
}

/* Waits for the reader, but see LAST_WORDS_MS. If the queue was renamed, the next runner handles signals. */
static bool wait_for_reader(void *context, int fd)
{
	const struct runner *r = context;
	struct pollfd fds[2] = {{fd, POLLOUT, 0}, {r->signal_fd, POLLIN, 0}};
	bool moved = r->result.moved, told = r->leaving || r->interrupts || moved;
	for (;;) {
		int n = poll(fds, moved ? 1 : 2, told ? LAST_WORDS_MS : -1);
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
	if (!r->options.out || r->words.waiting.length == 0)
		return;
	fflush(r->options.out);
	line_output_flush(&r->words, fileno(r->options.out), wait ? wait_for_reader : NULL, r);
}

void runner_say(struct runner *r, const char *format, ...)
{
	cleanup_(text_finish) struct text t = {0};
	va_list args;
	if (!r->options.out)
		return;
	va_start(args, format);
	text_vappendf(&t, format, args);
	va_end(args);
	if (text_error(&t))
		return;
	if (r->watch && r->watch->say) {
		r->watch->say(r->watch->context, text_string(&t), t.length);
		return;
	}
	fflush(r->options.out);
	line_output_add(&r->words, fileno(r->options.out), text_string(&t), t.length);
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
