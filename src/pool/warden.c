/* SPDX-License-Identifier: MIT */
#include "pool/warden.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "pool/warden_private.h"

static int open_pidfd(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	return fd < 0 ? -errno : fd;
}

/* In the child. Every signal waits, so that a Ctrl-C or a handler of the host has no effect here. */
static _Noreturn void become_warden(struct warden_process *w)
{
	sigset_t all, child;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	signal(SIGCHLD, SIG_DFL); /* ignored, it would take the exit statuses away */
	setpgid(0, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_SET_NAME, "gd-warden");
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
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
	/* Orders are few and small; a warden that takes none for this long is stopped or worse. */
	struct timeval limit = {.tv_sec = 10};
	setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	return 0;
}

static void free_handle(struct warden *w)
{
	if (w->pidfd >= 0)
		close(w->pidfd);
	if (w->socket >= 0)
		close(w->socket);
	if (w->wake_fd >= 0)
		close(w->wake_fd);
	if (w->shared)
		munmap(w->shared, w->shared_size);
	free(w->wards);
	*w = (struct warden){.pidfd = -1, .socket = -1, .wake_fd = -1};
}

/* Everything that the two sides share, made before the fork. */
static int prepare(const struct warden_plan *plan, struct warden *w)
{
	w->watches = plan->task_timeout_ns > 0;
	w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->wake_fd < 0)
		return -errno;
	w->wards = calloc(plan->num_slots, sizeof(*w->wards));
	if (!w->wards)
		return -ENOMEM;
	w->shared_size = sizeof(struct warden_shared) + plan->num_slots * sizeof(int32_t);
	void *shared = mmap(NULL, w->shared_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return -errno;
	w->shared = shared;
	return 0;
}

static int fork_warden(const struct warden_plan *plan, struct warden *w, int theirs)
{
	cleanup_(closep) int self = open_pidfd(getpid());
	if (self < 0)
		return self;
	/*
	 * Or the workers would print what is in the buffers once more each; executed ones
	 * have none, and a thread that waits for its input would keep us waiting here.
	 */
	if (!plan->argv)
		fflush(NULL);
	w->pid = plan->argv ? _Fork() : fork();
	if (w->pid < 0)
		return -errno;
	if (w->pid == 0) {
		struct warden_process process = {
			.plan = plan,
			.shared = w->shared,
			.shared_size = w->shared_size,
			.wards = w->wards,
			.socket = theirs,
			.parent_pidfd = self,
			.wake_fd = w->wake_fd,
		};
		close(w->socket);
		become_warden(&process);
	}
	setpgid(w->pid, w->pid);
	w->pidfd = open_pidfd(w->pid);
	if (w->pidfd >= 0)
		return 0;
	int r = w->pidfd;
	kill(w->pid, SIGKILL);
	while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
		;
	return r;
}

int warden_start(const struct warden_plan *plan, struct warden *ret, struct gd_error *err)
{
	int ends[2];
	int r = make_socket(ends);
	if (r < 0)
		return error_set(err, r, "cannot make a socket for the warden: %s", error_words(r));
	cleanup_(closep) int theirs = ends[1];
	struct warden w = {.pidfd = -1, .socket = ends[0], .wake_fd = -1};
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
	struct iovec iov = {.iov_base = &order, .iov_len = sizeof(order)};
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(ORDER_FDS * sizeof(int))];
	} control = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	if (num_fds > 0) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(num_fds * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(num_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, num_fds * sizeof(int));
	}
	for (;;) {
		if (sendmsg(w->socket, &msg, MSG_NOSIGNAL) >= 0)
			return 0;
		if (errno != EINTR)
			return -errno;
	}
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
	if (!w->watches)
		return;
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_exchange(&w->shared->asleep, 0))
		return;
	uint64_t one = 1;
	if (write(w->wake_fd, &one, sizeof(one)) < 0)
		return; /* EAGAIN: it has been written to often enough to wake */
}

void warden_finish(struct warden *w, uint64_t deadline_ns)
{
	struct pollfd p = {.fd = w->pidfd, .events = POLLIN};
	while (poll(&p, 1, clock_ms_until(deadline_ns, clock_now_ns())) < 0 && errno == EINTR)
		;
	if (!p.revents)
		syscall(SYS_pidfd_send_signal, w->pidfd, SIGKILL, NULL, 0);
	/* ECHILD where the host ignores SIGCHLD or waits for everything: fine. */
	while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
		;
	free_handle(w);
}
