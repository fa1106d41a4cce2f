/* SPDX-License-Identifier: MIT */
#include "cli/terminal_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

static void *pass_on(void *context)
{
	struct terminal_filter *f = context;
	struct pollfd p[] = {{f->capture.fd, POLLIN, 0}, {f->stop_fd, POLLIN, 0}};
	while (poll(p, 2, -1) >= 0 || errno == EINTR) {
		cleanup_(text_finish) struct text lines = {0};
		if (p[1].revents)
			break;
		capture_read(&f->capture, &lines, false);
		if (text_error(&lines) == 0)
			(void)file_write_all(f->terminal_fd, text_string(&lines), lines.length);
	}
	return NULL;
}

/* Signals are handled by other threads. */
static int start_thread(struct terminal_filter *f)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = -pthread_create(&f->thread, NULL, pass_on, f);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

int terminal_filter_begin(struct terminal_filter *f, int fd)
{
	if (!isatty(fd))
		return 0;
	cleanup_(closep) int terminal_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	cleanup_(closep) int stop_fd = eventfd(0, EFD_CLOEXEC);
	if (terminal_fd < 0 || stop_fd < 0)
		return -errno;
	f->terminal_fd = terminal_fd;
	f->stop_fd = stop_fd;
	int r = capture_begin(&f->capture, terminal_fd);
	if (r < 0)
		return r;
	r = start_thread(f);
	if (r < 0) {
		capture_end(&f->capture);
		return r;
	}
	f->active = true;
	(void)take_fd(&terminal_fd);
	(void)take_fd(&stop_fd);
	return 0;
}

void terminal_filter_end(struct terminal_filter *f)
{
	if (!f->active)
		return;
	eventfd_write(f->stop_fd, 1);
	pthread_join(f->thread, NULL);
	capture_end(&f->capture);
	closep(&f->terminal_fd);
	closep(&f->stop_fd);
	f->active = false;
}
