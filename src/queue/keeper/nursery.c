/* SPDX-License-Identifier: MIT */
#include "queue/keeper/nursery.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd_message.h"
#include "base/file.h"
#include "base/process.h"
#include "base/signals.h"
#include "queue/keeper/keeper.h"
#include "queue/keeper/orphans.h"
#include "queue/keeper/syncer.h"

/* Orphans are killed again after this delay, which grows while they do not die. */
#define KILL_AGAIN_MS  20
#define KILL_SELDOM_MS 1000

/* The runner's request: one byte, sent with the child's end of a socket. */
enum nursery_request {
	NURSERY_ADD_KEEPER = 'k',
	NURSERY_ADD_SYNCER = 's',
};

struct nursery {
	struct nursery_options options;
	int fd; /* -1: the runner is gone */
	int signal_fd;
	pid_t *children; /* keepers and syncers */
	size_t num_children, capacity;
};

/* Descriptors inherited from the process that started us are not used here, and must not reach a job. */
static void close_on_exec_all(void)
{
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif
	if (syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) == 0)
		return;
	DIR *d = opendir("/proc/self/fd");
	for (struct dirent *e; d && (e = readdir(d));)
		if (atoi(e->d_name) > 2)
			fcntl(atoi(e->d_name), F_SETFD, FD_CLOEXEC);
	if (d)
		closedir(d);
}

/* Jobs always die with their keepers. */
static void die_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
}

static void add_child(struct nursery *n, enum nursery_request request, int fd)
{
	if (array_reserve(n->children, &n->capacity, n->num_children + 1) < 0)
		return; /* the caller closes the socket, and the runner sees that */
	pid_t parent = getpid(), pid = fork();
	if (pid == 0) {
		if (n->options.dies_with_parent)
			die_with(parent);
		close(n->fd);
		close(n->signal_fd);
		free(n->children);
		if (request == NURSERY_ADD_SYNCER)
			syncer_main(n->options.parent_fd, strrchr(n->options.journal_path, '/') + 1, fd);
		keeper_main(&n->options, fd);
	}
	if (pid > 0)
		n->children[n->num_children++] = pid;
}

static void on_request(struct nursery *n)
{
	char byte;
	cleanup_(fd_message_close) struct fd_message m = {0};
	ssize_t got = fd_message_receive(n->fd, &byte, 1, MSG_DONTWAIT, &m);
	if (got == -EAGAIN)
		return;
	if (got <= 0)
		close_fd(&n->fd);
	else if (m.num_fds == 1)
		add_child(n, (enum nursery_request)byte, m.fds[0]);
}

/* All other children were left behind by a killed keeper. */
static bool is_child(void *context, pid_t pid)
{
	const struct nursery *n = context;
	for (size_t i = 0; i < n->num_children; i++)
		if (n->children[i] == pid)
			return true;
	return false;
}

static void on_child(struct nursery *n)
{
	pid_t pid;
	struct signalfd_siginfo si;
	while (read(n->signal_fd, &si, sizeof(si)) == sizeof(si))
		;
	while ((pid = process_reap(NULL)) > 0)
		for (size_t i = 0; i < n->num_children; i++)
			if (n->children[i] == pid)
				n->children[i] = n->children[--n->num_children];
}

_Noreturn static void nursery_main(struct nursery *n)
{
	bool orphans = false;
	int wait_ms = KILL_AGAIN_MS;
	while (n->fd >= 0 || n->num_children > 0 || orphans) {
		struct pollfd fds[2] = {{n->signal_fd, POLLIN, 0}, {n->fd, POLLIN, 0}};
		int ready = poll(fds, 2, orphans ? wait_ms : -1);
		if (ready < 0)
			continue;
		wait_ms = ready == 0 && wait_ms < KILL_SELDOM_MS ? wait_ms * 2 : ready > 0 ? KILL_AGAIN_MS : wait_ms;
		if (fds[0].revents)
			on_child(n);
		if (fds[0].revents || orphans)
			orphans = orphans_kill(is_child, n);
		if (n->fd >= 0 && fds[1].revents)
			on_request(n);
	}
	_exit(0);
}

static void child_setup(struct nursery *n)
{
	sigset_t set;
	signals_reset();
	/*
	 * Keepers outlive sessions and service shutdowns; they exit when their jobs end. Signals are
	 * blocked, not ignored, so that a job's process only needs to reset its mask.
	 */
	sigfillset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	setsid();
	prctl(PR_SET_NAME, "gpuq-nursery");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	close_on_exec_all();
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3; fd++)
		if (null < 0 || dup2(null, fd) < 0)
			_exit(1);
	if (null > 2)
		close(null);
	if (chdir("/") < 0)
		_exit(1);
	n->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (n->signal_fd < 0)
		_exit(1);
}

/* We must not hold the runner's other descriptors open after it is gone, above all the sockets of keepers. */
static void keep_only(int *fd, int *other_fd)
{
	/* Move both away first: one may already have the other's target number. */
	int one = fcntl(*fd, F_DUPFD_CLOEXEC, 5), other = fcntl(*other_fd, F_DUPFD_CLOEXEC, 5);
	if (one < 0 || other < 0 || dup3(one, 3, O_CLOEXEC) < 0 || dup3(other, 4, O_CLOEXEC) < 0)
		_exit(1);
	*fd = 3;
	*other_fd = 4;
	file_close_range(5, INT_MAX);
}

int nursery_start(const struct nursery_options *options, pid_t *ret_pid, int *ret_fd, struct gd_error *err)
{
	int fds[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return error_set(err, -errno, "cannot start the runner: %s", error_words(errno));
	pid_t parent = getpid(), pid = fork();
	if (pid < 0) {
		int r = -errno;
		close(fds[0]);
		close(fds[1]);
		return error_set(err, r, "cannot start the runner: fork: %s", error_words(r));
	}
	if (pid == 0) {
		if (options->dies_with_parent)
			die_with(parent);
		struct nursery n = {.options = *options, .fd = fds[1]};
		keep_only(&n.fd, &n.options.parent_fd);
		child_setup(&n);
		nursery_main(&n);
	}
	close(fds[1]);
	*ret_pid = pid;
	*ret_fd = fds[0];
	return 0;
}

static int send_request(int nursery_fd, enum nursery_request request, int *ret_fd)
{
	char byte = (char)request;
	int fds[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	int r = fd_message_send(nursery_fd, &byte, 1, &fds[1], 1, 0);
	close(fds[1]);
	if (r == 0 && fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0)
		r = -errno;
	if (r < 0) {
		close(fds[0]);
		return r;
	}
	*ret_fd = fds[0];
	return 0;
}

int nursery_add_keeper(int nursery_fd, int *ret_fd)
{
	return send_request(nursery_fd, NURSERY_ADD_KEEPER, ret_fd);
}

int nursery_add_syncer(int nursery_fd, int *ret_fd)
{
	return send_request(nursery_fd, NURSERY_ADD_SYNCER, ret_fd);
}
