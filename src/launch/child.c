/* SPDX-License-Identifier: MIT */
#include "launch/child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/process.h"
#include "base/signals.h"
#include "base/utf8.h"

#define REAP_MS           5000 /* wait for killed processes; do not wait longer for one stuck in the kernel */
#define EXIT_NOT_EXECUTED 127
#define LINE_MAX_BYTES    400

/* ---- Starting ----------------------------------------------------------- */

/* Read and written by both sides of the vfork. */
struct start {
	char *const *argv;
	int in, out, log; /* the child's ends; -1: as ours */
	pid_t parent;
	volatile int error;
};

/* In the child, in the parent's memory: must not allocate or change anything but s->error. */
static _Noreturn void enter(struct start *s)
{
	const struct sigaction usual = {.sa_handler = SIG_DFL};
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != s->parent || setpgid(0, 0) < 0 ||
		sigaction(SIGPIPE, &usual, NULL) < 0 || (s->in >= 0 && dup2(s->in, STDIN_FILENO) < 0) ||
		(s->out >= 0 && dup2(s->out, STDOUT_FILENO) < 0) || dup2(s->log, STDERR_FILENO) < 0) {
		s->error = errno;
		_exit(EXIT_NOT_EXECUTED);
	}
	file_close_range(STDERR_FILENO + 1, INT_MAX);
	execvp(s->argv[0], s->argv);
	s->error = errno;
	_exit(EXIT_NOT_EXECUTED);
}

/* vfork(), because fork() would copy the page tables for each file. */
static __attribute__((noinline)) pid_t start(struct start *s)
{
	pid_t pid = vfork();
	if (pid == 0)
		enter(s);
	return pid;
}

static int make_pipe(int *ret_read, int *ret_write)
{
	int fds[2];
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	*ret_read = file_above_stdio(fds[0]);
	*ret_write = file_above_stdio(fds[1]);
	return *ret_read < 0 ? *ret_read : *ret_write < 0 ? *ret_write : 0;
}

static int set_nonblocking(int fd)
{
	return fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

static void close_all(struct child *c)
{
	pidref_close(&c->process);
	close_fd(&c->in);
	close_fd(&c->out);
	close_fd(&c->log);
}

static int start_piped(struct child *c, struct start *s, bool talks)
{
	int r = make_pipe(&c->log, &s->log);
	if (r >= 0 && talks)
		r = make_pipe(&s->in, &c->in);
	if (r >= 0 && talks)
		r = make_pipe(&c->out, &s->out);
	if (r >= 0)
		r = set_nonblocking(c->log);
	if (r >= 0 && talks)
		r = set_nonblocking(c->in);
	if (r >= 0 && talks)
		r = set_nonblocking(c->out);
	if (r < 0)
		return r;
	pid_t pid = start(s);
	if (pid < 0)
		return -errno;
	if (s->error) {
		waitpid(pid, NULL, 0);
		return -s->error;
	}
	c->process.pid = pid; /* without a descriptor, child_end() ends it by number */
	return pidref_open(pid, &c->process);
}

int child_start(struct child *c, char *const argv[], bool talks)
{
	*c = CHILD_NONE;
	struct start s = {.argv = argv, .in = -1, .out = -1, .log = -1, .parent = getpid()};
	int r = start_piped(c, &s, talks);
	closep(&s.in);
	closep(&s.out);
	closep(&s.log);
	if (r < 0) {
		child_end(c);
		*c = CHILD_NONE;
	}
	return r;
}

/* ---- Standard error ----------------------------------------------------- */

static void keep_tail(struct child *c, const char *data, size_t size)
{
	if (size >= sizeof(c->tail)) {
		data += size - sizeof(c->tail);
		size = sizeof(c->tail);
	}
	size_t keep = sizeof(c->tail) - size < c->tail_size ? sizeof(c->tail) - size : c->tail_size;
	memmove(c->tail, c->tail + c->tail_size - keep, keep);
	memcpy(c->tail + keep, data, size);
	c->tail_size = keep + size;
}

void child_read_log(struct child *c)
{
	char buf[16384];
	/* More than a pipe holds, but limited: a program that never stops writing must not keep us here. */
	for (int i = 0; i < 8 && c->log >= 0; i++) {
		ssize_t n = read(c->log, buf, sizeof(buf));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			close_fd(&c->log);
			return;
		}
		keep_tail(c, buf, (size_t)n);
		/* A failed write to our log must not fail the work. */
		(void)file_write_all(STDERR_FILENO, buf, (size_t)n);
		if ((size_t)n < sizeof(buf))
			return;
	}
}

/* The last non-empty line of its standard error, made printable; "" if there is none. */
static void last_line(const struct child *c, char *to, size_t room)
{
	size_t end = c->tail_size;
	while (end > 0 && strchr("\n\r\t ", c->tail[end - 1]))
		end--;
	size_t begin = end;
	while (begin > 0 && c->tail[begin - 1] != '\n' && c->tail[begin - 1] != '\r')
		begin--;
	utf8_copy_line(to, room, c->tail + begin, end - begin);
}

/* ---- The end ------------------------------------------------------------ */

void child_signal(struct child *c, int signal)
{
	if (!pidref_is_set(&c->process))
		return;
	kill(-c->process.pid, signal);
	kill(-c->process.pid, SIGCONT);
}

/* Processes that it left behind are our children now, because a worker is a subreaper. */
static void end_orphans(void)
{
	uint64_t deadline = clock_now_ns() + REAP_MS * NS_PER_MS;
	for (;;) {
		siginfo_t info = {0};
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) < 0 && errno != EINTR)
			return; /* ECHILD: usually there are none */
		if (info.si_pid)
			continue;
		process_signal_descendants(getpid(), SIGKILL);
		if (clock_now_ns() >= deadline)
			return;
		poll(NULL, 0, 1);
	}
}

/* Kills the group before reaping its leader: until then the number cannot be reused. */
void child_end(struct child *c)
{
	if (pidref_is_set(&c->process)) {
		if (!pidref_wait(&c->process, 0))
			pidref_signal(&c->process, SIGKILL);
		kill(-c->process.pid, SIGKILL);
		pidref_wait(&c->process, clock_now_ns() + REAP_MS * NS_PER_MS);
		c->status = SIGKILL;
		(void)waitpid(c->process.pid, &c->status, WNOHANG);
		pidref_close(&c->process);
		end_orphans();
		child_read_log(c);
	}
	close_all(c);
}

void child_words(const struct child *c, char *to, size_t room)
{
	char how[64], line[LINE_MAX_BYTES];
	last_line(c, line, sizeof(line));
	if (WIFSIGNALED(c->status))
		snprintf(how, sizeof(how), "%s%s", signal_name(WTERMSIG(c->status)),
			WTERMSIG(c->status) == SIGKILL ? " (perhaps sent by the kernel because memory ran out)" : "");
	else
		snprintf(how, sizeof(how), "exit %d", WEXITSTATUS(c->status));
	snprintf(to, room, "%s%s%s", how, line[0] ? ": " : "", line);
}
