/* SPDX-License-Identifier: MIT */
#include "base/cost_limit.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define LEAVE_SCREEN "\033[?1049l\033[?25h\033[0m"

/* Used by the handler. */
static struct {
	uint64_t cpu_ns; /* 0: disabled */
	size_t memory_bytes;
	const char *allow;
	bool has_timer, has_terminal, has_memory, counts;
	struct rlimit old_memory;
	volatile sig_atomic_t full_screen;
	timer_t timer;
	struct termios terminal;
	char path[256];
} limit;

static void say(const char *words)
{
	size_t size = strlen(words);
	while (size > 0) {
		ssize_t n = write(STDERR_FILENO, words, size);
		if (n <= 0)
			return;
		words += n;
		size -= (size_t)n;
	}
}

static void on_exceeded(int signal)
{
	(void)signal;
	if (limit.full_screen && limit.has_terminal) {
		(void)!write(STDOUT_FILENO, LEAVE_SCREEN, sizeof(LEAVE_SCREEN) - 1);
		tcsetattr(STDIN_FILENO, TCSANOW, &limit.terminal);
	}
	say("gpuq: reading '");
	say(limit.path);
	say("' takes too much CPU time, and other users may have written it; ");
	say(limit.allow);
	say("\n");
	_exit(COST_LIMIT_EXIT);
}

void cost_limit_enable(uint64_t cpu_ns, size_t memory_bytes, const char *allow)
{
	limit.cpu_ns = cpu_ns;
	limit.memory_bytes = memory_bytes;
	limit.allow = allow;
	/* A full screen changes the terminal's modes. */
	if (!limit.full_screen)
		limit.has_terminal = tcgetattr(STDIN_FILENO, &limit.terminal) == 0;
}

void cost_limit_set_screen(bool on)
{
	limit.full_screen = on;
}

static void limit_memory(void)
{
	struct rlimit l;
	if (!COST_LIMIT_HAS_MEMORY || getrlimit(RLIMIT_DATA, &l) < 0 ||
		(l.rlim_cur != RLIM_INFINITY && l.rlim_cur <= limit.memory_bytes))
		return;
	limit.old_memory = l;
	l.rlim_cur = limit.memory_bytes;
	limit.has_memory = setrlimit(RLIMIT_DATA, &l) == 0;
}

/* If there is no timer, the command works without the limit. */
static void make_timer(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGXCPU};
	struct sigaction action = {.sa_handler = on_exceeded};
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGXCPU);
	limit.has_timer = sigaction(SIGXCPU, &action, NULL) == 0 && pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0 &&
			  timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &limit.timer) == 0;
}

/* Other bytes could control the terminal. */
static void set_path(const char *path)
{
	size_t i = 0;
	for (; path[i] && i + 1 < sizeof(limit.path); i++)
		limit.path[i] = path[i] >= ' ' && path[i] <= '~' ? path[i] : '?';
	limit.path[i] = '\0';
}

void cost_limit_start(const char *path)
{
	if (!limit.cpu_ns || limit.counts)
		return;
	limit.counts = true;
	if (!limit.has_timer) {
		limit_memory();
		make_timer();
	}
	set_path(path);
	struct itimerspec in = {.it_value = {
					.tv_sec = (time_t)(limit.cpu_ns / NS_PER_S),
					.tv_nsec = (long)(limit.cpu_ns % NS_PER_S),
				}};
	if (limit.has_timer)
		(void)timer_settime(limit.timer, 0, &in, NULL);
}

void cost_limit_stop(void)
{
	if (limit.counts && limit.has_timer)
		(void)timer_settime(limit.timer, 0, &(struct itimerspec){0}, NULL);
	limit.counts = false;
}

void cost_limit_leave(void)
{
	if (limit.has_memory)
		(void)setrlimit(RLIMIT_DATA, &limit.old_memory);
}
