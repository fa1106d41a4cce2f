/* SPDX-License-Identifier: MIT */
#include "queue/keeper/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "queue/keeper/keeper_lease.h"

int lease_send(int fd, const struct lease_message *m)
{
	ssize_t n;
	do
		n = send(fd, m, sizeof(*m), MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

int lease_receive(int fd, struct lease_message *ret)
{
	struct lease_message m;
	ssize_t n;
	/* ECONNRESET: the other process has exited without reading everything. Its own messages can still be received.
	 */
	do
		n = recv(fd, &m, sizeof(m), 0);
	while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	if (n < 0)
		return -errno;
	if (n != sizeof(m))
		return -EPIPE;
	m.words[sizeof(m.words) - 1] = '\0';
	*ret = m;
	return 0;
}

int lease_start(const struct journal *j, char **argv, const sigset_t *mask, struct lease *ret, struct gd_error *err)
{
	int fds[2];
	struct lease_message m;
	struct nursery_options options = {j->path, j->parent_fd, j->accepted, ""};
	struct attempt_front front = {.argv = argv, .group = getpgrp(), .mask = *mask};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return error_set(err, -errno, "cannot start a keeper: %s", error_words(errno));
	pid_t pid = fork();
	if (pid == 0) {
		close(fds[0]);
		keeper_lease_main(&options, &front, fds[1]);
	}
	int r = pid < 0 ? -errno : 0;
	close(fds[1]);
	struct lease l = {.pid = pid, .fd = fds[0]};
	if (r == 0)
		r = lease_receive(l.fd, &m);
	if (r == 0 && m.kind != LEASE_READY)
		r = m.kind == LEASE_FAILED ? m.code : -EPROTO;
	if (r < 0) {
		lease_finish(&l);
		return error_set(err, r, "cannot start a keeper in '%s/keepers': %s", j->dir_path, error_words(r));
	}
	snprintf(l.keeper, sizeof(l.keeper), "%.*s", (int)sizeof(l.keeper) - 1, m.words);
	*ret = l;
	return 0;
}

void lease_finish(struct lease *l)
{
	closep(&l->fd);
	l->fd = -1;
}
