/* SPDX-License-Identifier: MIT */
#include "view/panel/panel_guard.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/interrupts.h"

/* Signals that end a program by default and can be caught, except SIGINT and SIGTERM; SIGTSTP stops it. */
static const int signals[] = {SIGHUP, SIGQUIT, SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGPIPE, SIGALRM, SIGUSR1,
	SIGUSR2, SIGXCPU, SIGXFSZ, SIGTSTP};
#define SIGNALS (sizeof(signals) / sizeof(signals[0]))
/* A dying program writes at most this much from the pipe: a child may fill it forever. */
#define DRAIN_MOST ((size_t)1 << 20)

/* Global, for signal handlers. */
static atomic_bool taken;
static struct {
	pid_t owner; /* the process, but not its children */
	atomic_int fd;
	atomic_int drain_fd;
	atomic_size_t lines;
	atomic_bool left;
	atomic_bool dying;
	atomic_int drawing;   /* the thread that is drawing; 0: none */
	atomic_bool silenced; /* echo is off */
	struct termios terminal;
	struct sigaction before[SIGNALS];
	bool ours[SIGNALS];
} guard;

static void put(int fd, const char *bytes, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, bytes, size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		bytes += n;
		size -= (size_t)n;
	}
}

/*
 * Turns echo off: typed keys would be shown at the cursor, in the middle of the panel, and a newline would move it. The
 * program still receives them.
 */
static void silence(int fd)
{
	if (atomic_load(&guard.silenced) || tcgetattr(fd, &guard.terminal) < 0 || !(guard.terminal.c_lflag & ECHO))
		return;
	struct termios quiet = guard.terminal;
	quiet.c_lflag &= ~(tcflag_t)ECHO;
	if (tcsetattr(fd, TCSANOW, &quiet) == 0)
		atomic_store(&guard.silenced, true);
}

/* Not from the background: that would stop us, and the shell has already restored the terminal. */
static void unsilence(int fd)
{
	if (atomic_exchange(&guard.silenced, false) && tcgetpgrp(fd) == getpgrp())
		tcsetattr(fd, TCSANOW, &guard.terminal);
}

/* Moves the cursor below the panel and shows it again. Async-signal-safe. */
static void leave(void)
{
	size_t lines = atomic_exchange(&guard.lines, 0);
	int fd = atomic_load(&guard.fd);
	unsilence(fd);
	if (!lines)
		return;
	char bytes[64] = "\033[?2026l\033[0m\r";
	size_t n = strlen(bytes);
	if (lines > 1) {
		char digits[8];
		size_t count = 0;
		for (size_t rest = lines - 1; rest && count < sizeof(digits); rest /= 10)
			digits[count++] = (char)('0' + rest % 10);
		bytes[n++] = '\033';
		bytes[n++] = '[';
		while (count)
			bytes[n++] = digits[--count];
		bytes[n++] = 'B';
	}
	memcpy(bytes + n, "\n\033[?25h", 7);
	atomic_store(&guard.left, true);
	put(fd, bytes, n + 7);
}

static void drain(void)
{
	int from = atomic_load(&guard.drain_fd);
	struct pollfd p = {from, POLLIN, 0};
	char bytes[4096];
	size_t done = 0;
	while (from >= 0 && done < DRAIN_MOST && poll(&p, 1, 0) > 0 && (p.revents & POLLIN)) {
		ssize_t n = read(from, bytes, sizeof(bytes));
		if (n <= 0)
			return;
		done += (size_t)n;
		put(atomic_load(&guard.fd), bytes, (size_t)n);
	}
}

/* Prevents further drawing, and waits for a frame in progress. */
static void settle(void)
{
	atomic_store(&guard.dying, true);
	for (int ms = 0; ms < 1000; ms++) {
		int thread = atomic_load(&guard.drawing);
		if (!thread || thread == gettid())
			return;
		poll(NULL, 0, 1);
	}
}

static void leave_for_good(void)
{
	settle();
	leave();
	drain();
}

static void on_signal(int signal)
{
	int saved = errno;
	/* A child that was forked with our handlers owns neither the terminal nor the pipe. */
	bool owner = getpid() == guard.owner;
	if (owner && signal == SIGTSTP)
		leave();
	else if (owner)
		leave_for_good();
	/* Take the default action. After SIGTSTP, execution continues here. */
	struct sigaction ours, usual = {.sa_handler = SIG_DFL};
	sigset_t set;
	sigaction(signal, &usual, &ours);
	sigemptyset(&set);
	sigaddset(&set, signal);
	raise(signal);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	sigaction(signal, &ours, NULL);
	errno = saved;
}

bool panel_guard_begin(int fd)
{
	if (atomic_exchange(&taken, true))
		return false;
	guard.owner = getpid();
	atomic_store(&guard.fd, fd);
	atomic_store(&guard.drain_fd, -1);
	atomic_store(&guard.lines, 0);
	atomic_store(&guard.left, false);
	atomic_store(&guard.silenced, false);
	atomic_store(&guard.dying, false);
	atomic_store(&guard.drawing, 0);
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	for (size_t i = 0; i < SIGNALS; i++) {
		guard.ours[i] = sigaction(signals[i], NULL, &guard.before[i]) == 0 &&
				!(guard.before[i].sa_flags & SA_SIGINFO) && guard.before[i].sa_handler == SIG_DFL;
		guard.ours[i] = guard.ours[i] && sigaction(signals[i], &sa, NULL) == 0;
	}
	interrupts_set_farewell(leave_for_good);
	return true;
}

void panel_guard_end(void)
{
	atomic_store(&guard.drain_fd, -1);
	atomic_store(&guard.lines, 0);
	unsilence(atomic_load(&guard.fd));
	for (size_t i = 0; i < SIGNALS; i++) {
		struct sigaction now;
		/* The program may have set its own handler meanwhile. */
		if (guard.ours[i] && sigaction(signals[i], NULL, &now) == 0 && now.sa_handler == on_signal)
			sigaction(signals[i], &guard.before[i], NULL);
	}
	interrupts_set_farewell(NULL);
	atomic_store(&taken, false);
}

void panel_guard_lines(size_t lines)
{
	if (lines)
		silence(atomic_load(&guard.fd));
	atomic_store(&guard.lines, lines);
}

void panel_guard_show_keys(void)
{
	unsilence(atomic_load(&guard.fd));
}

bool panel_guard_was_left(void)
{
	return atomic_exchange(&guard.left, false);
}

bool panel_guard_enter(void)
{
	/* In this order: a dying thread sets `dying` first, then checks whether we draw. */
	atomic_store(&guard.drawing, gettid());
	if (!atomic_load(&guard.dying))
		return true;
	atomic_store(&guard.drawing, 0);
	return false;
}

void panel_guard_exit(void)
{
	atomic_store(&guard.drawing, 0);
}

void panel_guard_drain(int pipe_fd)
{
	atomic_store(&guard.drain_fd, pipe_fd);
}

__attribute__((destructor)) static void at_exit(void)
{
	if (atomic_load(&taken) && getpid() == guard.owner)
		leave_for_good();
}
