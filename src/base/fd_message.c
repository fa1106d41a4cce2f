/* SPDX-License-Identifier: MIT */
#include "base/fd_message.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Buffer for the descriptors, aligned as the kernel requires. */
union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(FD_MESSAGE_MAX * sizeof(int))];
};

int fd_message_send(int socket, const void *data, size_t size, const int *fds, size_t num_fds, int flags)
{
	assert(num_fds <= FD_MESSAGE_MAX);
	struct iovec iov = {.iov_base = (void *)data, .iov_len = size};
	union control control = {0};
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
	ssize_t n;
	do {
		n = sendmsg(socket, &msg, MSG_NOSIGNAL | flags);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

ssize_t fd_message_receive(int socket, void *data, size_t size, int flags, struct fd_message *ret)
{
	struct iovec iov = {.iov_base = data, .iov_len = size};
	union control control;
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n;
	do {
		n = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC | flags);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	struct fd_message m = {.truncated = msg.msg_flags & MSG_CTRUNC};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		m.num_fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(m.fds, CMSG_DATA(c), m.num_fds * sizeof(int));
	}
	if (n > 0)
		*ret = m;
	else
		fd_message_close(&m); /* an empty packet looks like the end of the stream, but may carry descriptors */
	return n;
}

void fd_message_close(struct fd_message *m)
{
	for (size_t i = 0; i < m->num_fds; i++)
		close(m->fds[i]);
	m->num_fds = 0;
}
