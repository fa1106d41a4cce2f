/* SPDX-License-Identifier: MIT */
#include "queue/keeper/keeper_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/trust.h"

#define WORD    "socket gpuq-"
#define DIGITS  32
#define BACKLOG 16
/* A runner waits this long for a keeper that does not accept. */
#define CONNECT_SECONDS 2

/* The address of the socket with these random digits. */
static socklen_t make_address(const char digits[DIGITS], struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	/* A leading NUL: abstract namespace. */
	memcpy(ret->sun_path + 1, "gpuq-", 5);
	memcpy(ret->sun_path + 6, digits, DIGITS);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 6 + DIGITS);
}

static bool is_trusted(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && (peer.uid == 0 || trust_is_user(peer.uid));
}

int keeper_socket_listen(int lock_fd, int *ret_fd)
{
	uint64_t random[2];
	char line[sizeof(WORD) + DIGITS + 1];
	struct sockaddr_un address;
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	int n = snprintf(line, sizeof(line), WORD "%016llx%016llx\n", (unsigned long long)random[0],
		(unsigned long long)random[1]);
	cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t size = make_address(line + sizeof(WORD) - 1, &address);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, size) < 0 || listen(fd, BACKLOG) < 0 ||
		pwrite(lock_fd, line, (size_t)n, 0) != n)
		return errno ? -errno : -EIO;
	*ret_fd = take_fd(&fd);
	return 0;
}

int keeper_socket_accept(int listen_fd, int *ret_fd)
{
	cleanup_(closep) int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* A visitor that stops in the middle of an order must not block the keeper. */
	struct timeval patience = {.tv_sec = 5};
	if (!is_trusted(fd) || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0)
		return -EPERM;
	*ret_fd = take_fd(&fd);
	return 0;
}

static int read_address(int dir_fd, const char *keeper, struct sockaddr_un *ret, socklen_t *ret_size)
{
	char name[80], line[sizeof(WORD) + DIGITS];
	/* The name comes from a journal and must not escape the folder. */
	if (strchr(keeper, '/') || strlen(keeper) > 64)
		return -EINVAL;
	snprintf(name, sizeof(name), "keepers/%s", keeper);
	cleanup_(closep) int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (pread(fd, line, sizeof(line), 0) != sizeof(line) || memcmp(line, WORD, sizeof(WORD) - 1) != 0)
		return -ENOENT;
	*ret_size = make_address(line + sizeof(WORD) - 1, ret);
	return 0;
}

int keeper_socket_connect(int dir_fd, const char *keeper, int *ret_fd)
{
	struct sockaddr_un address;
	socklen_t size = 0;
	int r = read_address(dir_fd, keeper, &address, &size);
	if (r < 0)
		return r;
	cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	/* Other users can fill the backlog: wait to be served in turn. */
	const struct timeval patience = {.tv_sec = CONNECT_SECONDS};
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0)
		return -errno;
	do
		r = connect(fd, (const struct sockaddr *)&address, size) < 0 ? -errno : 0;
	while (r == -EINTR);
	if (r < 0)
		return r == -EAGAIN ? -ETIMEDOUT : r;
	if (!is_trusted(fd))
		return -EPERM;
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}
