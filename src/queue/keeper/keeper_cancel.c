/* SPDX-License-Identifier: MIT */
/* Orders to a keeper from a process that is not its runner. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "queue/keeper/keeper.h"
#include "queue/keeper/keeper_messages.h"
#include "queue/keeper/keeper_socket.h"

/* A keeper answers at once, or later on a loaded machine. */
#define ANSWER_MS 10000

static int send_order(const struct journal *j, const char *keeper, uint32_t kind, uint64_t id)
{
	cleanup_(closep) int fd = -1;
	struct keeper_note hello = {0};
	struct keeper_order order = {.bytes = sizeof(order), .kind = kind, .id = id};
	int r = keeper_socket_connect(j->dir_fd, keeper, &fd);
	if (r < 0)
		return r;
	struct pollfd p = {fd, POLLIN, 0};
	if (poll(&p, 1, ANSWER_MS) <= 0)
		return -ETIMEDOUT;
	if (recv(fd, &hello, sizeof(hello), MSG_DONTWAIT) < (ssize_t)KEEPER_MESSAGE_MIN)
		return -ESRCH;
	if (hello.kind != KEEPER_NOTE_HELLO || hello.code != keeper_protocol)
		return -EPROTONOSUPPORT;
	return send(fd, &order, sizeof(order), MSG_NOSIGNAL) == sizeof(order) ? 0 : -EPIPE;
}

int keeper_cancel(const struct journal *j, const char *keeper, uint64_t id)
{
	return send_order(j, keeper, KEEPER_ORDER_CANCEL, id);
}

int keeper_pause(const struct journal *j, const char *keeper, uint64_t id, bool paused)
{
	return send_order(j, keeper, paused ? KEEPER_ORDER_PAUSE : KEEPER_ORDER_RESUME, id);
}
