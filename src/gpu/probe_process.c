/* SPDX-License-Identifier: MIT */
#include "gpu/probe_process.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/helper.h"
#include "base/process.h"

#define REAP_MS     1000
#define SLOW_MS     10000
#define START_TRIES 5
#define START_MS    300

extern char **environ;

/* ---- The program -------------------------------------------------------- */

static int spawn(const char *program, int socket, char *const argv[], pid_t *ret)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int r = posix_spawn_file_actions_init(&actions);
	if (r != 0)
		return -r;
	r = posix_spawnattr_init(&attributes);
	if (r != 0) {
		posix_spawn_file_actions_destroy(&actions);
		return -r;
	}
	sigset_t all, none;
	sigfillset(&all);
	sigemptyset(&none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
	r = posix_spawn_file_actions_adddup2(&actions, socket, PROBER_SOCKET);
	/* For relative entries of LD_LIBRARY_PATH: others may have planted libraries in the current directory. */
	if (r == 0)
		r = posix_spawn_file_actions_addchdir_np(&actions, "/");
	if (r == 0)
		r = posix_spawn(ret, program, &actions, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

static int spawn_prober(const struct prober_settings *settings, pid_t *ret)
{
	char program[PATH_MAX];
	int r = helper_find("gpuq-probe", "GPUQ_PROBE", program, sizeof(program), NULL);
	if (r < 0)
		return r;
	struct prober_arguments arguments;
	prober_write_arguments(settings, &arguments);
	return spawn(program, settings->socket, arguments.argv, ret);
}

/* ---- The fork ----------------------------------------------------------- */

/* Signals are blocked until the child has reset the caller's handlers. */
static int fork_prober(const struct prober_settings *settings, pid_t *ret)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid_t pid = fork();
	if (pid == 0)
		prober_main(settings);
	int r = pid < 0 ? -errno : 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r == 0)
		*ret = pid;
	return r;
}

/* ---- Start and end ------------------------------------------------------ */

/* Lets the process begin; -EPIPE if it has ended. */
static int send_go(struct probe_process *p)
{
	ssize_t n;
	do
		n = send(p->fd, "?", 1, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

static int start_once(struct prober_settings *settings, bool forked, struct probe_process *p)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	p->fd = pair[0];
	cleanup_(closep) int theirs = pair[1];
	settings->socket = theirs;
	settings->parent = getpid();
	int r = (forked ? fork_prober : spawn_prober)(settings, &p->ref.pid);
	if (r < 0)
		return r;
	r = pidref_open(p->ref.pid, &p->ref);
	return r < 0 ? r : send_go(p);
}

/* 1 if it has sent something; 0 at its end, or if it sends nothing in time. */
static int wait_ready(struct probe_process *p, uint64_t deadline_ns)
{
	struct pollfd ready = {.fd = p->fd, .events = POLLIN};
	int r;
	do
		r = poll(&ready, 1, clock_ms_until(deadline_ns, clock_now_ns()));
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r < 0 ? -errno : 0;
	char byte;
	return recv(p->fd, &byte, 1, MSG_PEEK) == 1;
}

/*
 * If the program cannot be started, or exits because its version differs, use a fork. A fork that inherited a held lock
 * stays silent; another fork probably does not. Each try gets more time, because the machine may be slow.
 */
int probe_process_start(const struct prober_settings *settings, struct probe_process *ret)
{
	struct prober_settings s = *settings;
	int r = -ETIMEDOUT;
	for (int i = 0; i < START_TRIES; i++) {
		struct probe_process p = PROBE_PROCESS_NONE;
		bool forked = i > 0;
		r = start_once(&s, forked, &p);
		if (r == 0)
			r = wait_ready(&p, clock_now_ns() + (START_MS * NS_PER_MS << i));
		if (r > 0) {
			*ret = p;
			return 0;
		}
		probe_process_end(&p);
		if (r < 0 && forked)
			return r;
	}
	return -ETIMEDOUT;
}

/*
 * Waits for the end of a process that was killed. A process that SIGKILL does not end, because a driver holds it in the
 * kernel, is abandoned after REAP_MS; one that only lacks CPU time to end, after SLOW_MS.
 */
static void wait_for_end(const struct pidref *ref)
{
	uint64_t begin_ns = clock_now_ns(), deadline_ns = begin_ns + REAP_MS * NS_PER_MS;
	struct process_info info;
	while (!pidref_wait(ref, deadline_ns)) {
		deadline_ns = clock_now_ns() + REAP_MS / 10 * NS_PER_MS;
		if (deadline_ns > begin_ns + SLOW_MS * NS_PER_MS || process_info(ref->pid, &info) < 0 ||
			info.state != 'R')
			return;
	}
}

void probe_process_end(struct probe_process *p)
{
	if (pidref_is_set(&p->ref)) {
		pidref_signal(&p->ref, SIGKILL);
		wait_for_end(&p->ref);
		/* ECHILD: the caller ignores SIGCHLD, or waits for all children. */
		siginfo_t info = {0};
		if (waitid(P_PID, (id_t)p->ref.pid, &info, WEXITED | WNOHANG) == 0 && info.si_pid &&
			info.si_code != CLD_EXITED)
			p->exit_signal = info.si_status;
	}
	pidref_close(&p->ref);
	close_fd(&p->fd);
}
