/* SPDX-License-Identifier: MIT */
/*
 * `gpuq exec` while its command runs. The command is in the same process group.
 *
 * Signals from the terminal (Ctrl-C, Ctrl-Z, a new size) and to the group reach the command directly. A signal that
 * another process sends to `gpuq exec` is forwarded. `gpuq exec` stops when the command has stopped, not before: an
 * editor first restores the terminal.
 *
 * A command that is a shell creates its own process group and takes the terminal. When it stops, or dies without
 * returning the terminal, `gpuq exec` takes the terminal for its own group, which the outer shell waits for.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/process.h"
#include "cli/exec_parts.h"
#include "cli/exit_code.h"
#include "cli/say.h"
#include "queue/keeper/orphans.h"

#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND      127
#define EXIT_SIGNAL         128

/* Processes left by a killed keeper are killed again at this interval, for at most KILL_NS. */
#define KILL_AGAIN_MS 20
#define KILL_NS       (10 * NS_PER_S)

static const int passed_on[] = {
	SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGWINCH};

struct attending {
	struct exec *exec;
	int signal_fd;
	int tty; /* -1: no terminal */
	pid_t command;
};

/* ---- The terminal --------------------------------------------------------------------- */

/* SIGTTOU is blocked, so a process in the background can also do this. */
static void give_terminal(const struct attending *a, pid_t group)
{
	if (a->tty >= 0)
		(void)tcsetpgrp(a->tty, group);
}

/* The command's own process group if it has the terminal, and not our group; otherwise 0. */
static pid_t terminal_of_command(const struct attending *a)
{
	pid_t front = a->tty >= 0 ? tcgetpgrp(a->tty) : -1;
	return front > 0 && front != getpgrp() && front == getpgid(a->command) ? front : 0;
}

/* After the end: the group that has the terminal is gone, and no other process would return it. */
static void take_terminal_back(const struct attending *a)
{
	pid_t front = a->tty >= 0 ? tcgetpgrp(a->tty) : -1;
	if (front > 0 && front != getpgrp() && kill(-front, 0) < 0 && errno == ESRCH)
		give_terminal(a, getpgrp());
}

/* ---- Signals -------------------------------------------------------------------------- */

static void signal_command(const struct attending *a, int number)
{
	(void)lease_send(a->exec->lease.fd, &(struct lease_message){.kind = LEASE_SIGNAL, .code = number});
}

static bool is_of_command(const struct attending *a, pid_t pid)
{
	struct process_info info;
	while (pid > 1 && pid != a->exec->lease.pid)
		pid = process_info(pid, &info) == 0 ? info.ppid : 0;
	return pid == a->exec->lease.pid;
}

/* The command already received signals from the terminal, and signals that it sent to its own process group. */
static bool is_for_command(const struct attending *a, const struct signalfd_siginfo *si)
{
	return si->ssi_code <= 0 && !is_of_command(a, (pid_t)si->ssi_pid);
}

static void on_signal(const struct attending *a)
{
	struct signalfd_siginfo si;
	while (read(a->signal_fd, &si, sizeof(si)) == sizeof(si))
		if (is_for_command(a, &si))
			signal_command(a, (int)si.ssi_signo);
}

/* Stops this process as Ctrl-Z does, and returns when it is continued. */
static void stop(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

static void on_stopped(const struct attending *a)
{
	struct process_info info;
	pid_t group = terminal_of_command(a);
	/* If we were stopped ourselves, the message is outdated: the command was continued with us, or has ended. */
	if (process_info(a->command, &info) < 0 || info.state != 'T')
		return;
	if (group)
		give_terminal(a, getpgrp());
	stop();
	if (group) {
		give_terminal(a, group);
		kill(-group, SIGCONT);
	}
	signal_command(a, SIGCONT);
}

/* ---- The end -------------------------------------------------------------------------- */

static int on_ended(const struct exec *e, const struct lease_message *m)
{
	if (m->kind == LEASE_NOT_EXECUTED) {
		say("%s", m->words);
		return m->code == -ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
	}
	if (*m->words)
		say("job %" PRIu64 ": %s", e->id, m->words);
	return WIFSIGNALED(m->code) ? EXIT_SIGNAL + WTERMSIG(m->code) : WEXITSTATUS(m->code);
}

static bool is_own(void *context, pid_t pid)
{
	(void)context;
	(void)pid;
	return false;
}

/* The command died with its keeper; processes that it had started are now our children. */
static int on_keeper_killed(const struct exec *e)
{
	uint64_t until = clock_now_ns() + KILL_NS;
	while (orphans_kill(is_own, NULL) && clock_now_ns() < until) {
		poll(NULL, 0, KILL_AGAIN_MS);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
	say("job %" PRIu64 ": its keeper (PID %d) was killed, and the command with it", e->id, (int)e->lease.pid);
	return EXIT_WAIT;
}

/* ---- The main loop -------------------------------------------------------------------- */

static int open_signals(void)
{
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
		sigaddset(&set, passed_on[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int attend(struct attending *a)
{
	for (;;) {
		struct lease_message m;
		struct pollfd fds[2] = {{a->signal_fd, POLLIN, 0}, {a->exec->lease.fd, POLLIN, 0}};
		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[0].revents)
			on_signal(a);
		if (!fds[1].revents)
			continue;
		if (lease_receive(a->exec->lease.fd, &m) < 0)
			return on_keeper_killed(a->exec);
		if (m.kind == LEASE_STOPPED)
			on_stopped(a);
		else if (m.kind == LEASE_ENDED || m.kind == LEASE_NOT_EXECUTED)
			return on_ended(a->exec, &m);
	}
}

int exec_attend(struct exec *e, const struct lease_message *first)
{
	if (first->kind != LEASE_STARTED)
		return on_ended(e, first);
	/* Not before the command has started: a runner that we started while waiting must not become our child. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	cleanup_(closep) int signal_fd = open_signals();
	cleanup_(closep) int tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
	struct attending a = {.exec = e, .signal_fd = signal_fd, .tty = tty, .command = first->code};
	int code = attend(&a);
	take_terminal_back(&a);
	return code;
}
