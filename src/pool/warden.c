/* SPDX-License-Identifier: MIT */
#include "pool/warden.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd_message.h"
#include "base/file.h"
#include "pool/warden_private.h"

/* Executed workers get none of the host's descriptors, so close them here: another process may wait for that. */
static void close_others(const struct warden_process *w)
{
	int keep[] = {w->socket, w->parent.fd, w->wake_fd, w->plan->event_fd, w->plan->settings_fd};
	file_close_except(STDERR_FILENO + 1, keep, sizeof(keep) / sizeof(keep[0]));
}

/* In the child. Every signal is blocked, so that a Ctrl-C or a handler of the host has no effect here. */
static _Noreturn void become_warden(struct warden_process *w)
{
	sigset_t child;
	signal(SIGCHLD, SIG_DFL); /* if ignored, exit statuses would be lost */
	setpgid(0, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_SET_NAME, WARDEN_NAME);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	file_fill_stdio(false);
	if (w->plan->argv)
		close_others(w);
	w->signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	w->pid = getpid();
	if (w->signal_fd < 0)
		_exit(1);
	warden_main(w);
}

static int make_socket(int ends[2])
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	ends[0] = file_above_stdio(ends[0]);
	ends[1] = file_above_stdio(ends[1]);
	if (ends[0] < 0 || ends[1] < 0) {
		int r = ends[0] < 0 ? ends[0] : ends[1];
		closep(&ends[0]);
		closep(&ends[1]);
		return r;
	}
	/* Orders are few and small; a warden that reads none for this long is stopped or stuck. */
	struct timeval limit = {.tv_sec = 10};
	setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	return 0;
}

static void free_handle(struct warden *w)
{
	pidref_close(&w->process);
	if (w->socket >= 0)
		close(w->socket);
	if (w->wake_fd >= 0)
		close(w->wake_fd);
	if (w->shared)
		munmap(w->shared, w->shared_size);
	free(w->wards);
	*w = (struct warden){.process = PIDREF_NONE, .socket = -1, .wake_fd = -1};
}

/* Everything that the two sides share, made before the fork. */
static int prepare(const struct warden_plan *plan, struct warden *w)
{
	w->wake_fd = file_above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (w->wake_fd < 0)
		return w->wake_fd;
	w->wards = calloc(plan->num_slots, sizeof(*w->wards));
	if (!w->wards)
		return -ENOMEM;
	w->shared_size = sizeof(*w->shared) + plan->num_slots * sizeof(w->shared->notes[0]);
	void *shared = mmap(NULL, w->shared_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return -errno;
	w->shared = shared;
	return 0;
}

static int fork_warden(const struct warden_plan *plan, struct warden *w, int theirs)
{
	cleanup_(pidref_close) struct pidref self = PIDREF_NONE;
	int r = pidref_open(getpid(), &self);
	if (r < 0)
		return r;
	if (!plan->argv)
		fflush(NULL); /* otherwise each worker would print the contents of the buffers again */
	/* Between fork and become_warden(), no handler of the host must run in the child. */
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid_t pid = plan->argv ? _Fork() : fork();
	if (pid == 0) {
		struct warden_process process = {
			.plan = plan,
			.shared = w->shared,
			.shared_size = w->shared_size,
			.wards = w->wards,
			.socket = theirs,
			.parent = self,
			.wake_fd = w->wake_fd,
		};
		close(w->socket);
		become_warden(&process);
	}
	r = -errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (pid < 0)
		return r;
	setpgid(pid, pid);
	r = pidref_open(pid, &w->process);
	if (r >= 0)
		return 0;
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return r;
}

int warden_start(const struct warden_plan *plan, struct warden *ret, struct gd_error *err)
{
	int ends[2];
	int r = make_socket(ends);
	if (r < 0)
		return error_set(err, r, "cannot create a socket for the warden: %s", error_words(r));
	cleanup_(closep) int theirs = ends[1];
	struct warden w = {.process = PIDREF_NONE, .socket = ends[0], .wake_fd = -1};
	r = prepare(plan, &w);
	if (r >= 0)
		r = fork_warden(plan, &w, theirs);
	if (r < 0) {
		free_handle(&w);
		return error_set(err, r, "cannot start the warden process: %s", error_words(r));
	}
	*ret = w;
	return 0;
}

int warden_order(struct warden *w, struct warden_order order, const int *fds, size_t num_fds)
{
	return fd_message_send(w->socket, &order, sizeof(order), fds, num_fds, 0);
}

int warden_report(struct warden *w, struct warden_report *ret)
{
	for (;;) {
		ssize_t n = recv(w->socket, ret, sizeof(*ret), MSG_DONTWAIT);
		if (n == sizeof(*ret))
			return 1;
		if (n >= 0)
			return -EPIPE;
		if (errno == EAGAIN)
			return 0;
		if (errno != EINTR)
			return -EPIPE;
	}
}

void warden_notice(struct warden *w)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_exchange(&w->shared->asleep, 0))
		warden_wake(w);
}

void warden_wake(struct warden *w)
{
	uint64_t one = 1;
	if (write(w->wake_fd, &one, sizeof(one)) < 0)
		return; /* EAGAIN: the counter is full, which wakes it as well */
}

bool warden_says_large(const struct warden *w, size_t slot, uint64_t life)
{
	return atomic_load(&w->shared->notes[slot].large) == life;
}

void warden_finish(struct warden *w, uint64_t deadline_ns)
{
	if (!pidref_wait(&w->process, deadline_ns))
		pidref_signal(&w->process, SIGKILL);
	/* ECHILD if the program ignores SIGCHLD or waits for all children; this is not an error. */
	siginfo_t info;
	int r;
	do
		r = w->process.fd >= 0 ? waitid((idtype_t)P_PIDFD, (id_t)w->process.fd, &info, WEXITED)
				       : waitid(P_PID, (id_t)w->process.pid, &info, WEXITED);
	while (r < 0 && errno == EINTR);
	free_handle(w);
}
