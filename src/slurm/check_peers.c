/* SPDX-License-Identifier: MIT */
#include "slurm/check_peers.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"

void check_peers_init(struct check_peers *p, int listen_fd, const char *token)
{
	memset(p, 0, sizeof(*p));
	p->listen_fd = listen_fd;
	p->token = token;
	for (size_t i = 0; i < CHECK_PEERS; i++)
		p->peers[i].fd = -1;
}

void check_peers_finish(struct check_peers *p)
{
	for (size_t i = 0; i < CHECK_PEERS; i++)
		close_fd(&p->peers[i].fd);
}

/* A free place, or that of the oldest connection. */
static struct check_peer *find_place(struct check_peers *p)
{
	struct check_peer *oldest = &p->peers[0];
	for (size_t i = 0; i < CHECK_PEERS; i++) {
		if (p->peers[i].fd < 0)
			return &p->peers[i];
		if (p->peers[i].since_ns < oldest->since_ns)
			oldest = &p->peers[i];
	}
	return oldest;
}

static void accept_peer(struct check_peers *p)
{
	int fd = accept4(p->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;
	struct check_peer *peer = find_place(p);
	close_fd(&peer->fd);
	*peer = (struct check_peer){.fd = fd, .since_ns = clock_now_ns(), .since_ms = date_now_ms()};
}

/* Reads all that has arrived. 1: the report is complete; 0: not yet; -1: this is not the node. */
static int read_peer(const struct check_peers *p, struct check_peer *peer)
{
	while (peer->have < sizeof(peer->report) - 1) {
		ssize_t n = read(peer->fd, peer->report + peer->have, sizeof(peer->report) - 1 - peer->have);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -1;
		if (n == 0)
			return node_check_is_ours(peer->report, p->token) ? 1 : -1;
		peer->have += (size_t)n;
	}
	return -1;
}

int check_peers_wait(struct check_peers *p, int timeout_ms, struct check_peer *ret)
{
	struct pollfd polled[CHECK_PEERS + 1];
	for (size_t i = 0; i < CHECK_PEERS; i++)
		polled[i] = (struct pollfd){p->peers[i].fd, POLLIN, 0};
	polled[CHECK_PEERS] = (struct pollfd){p->listen_fd, POLLIN, 0};
	if (poll(polled, CHECK_PEERS + 1, timeout_ms) < 0)
		return -errno;
	uint64_t now = clock_now_ns();
	for (size_t i = 0; i < CHECK_PEERS; i++) {
		struct check_peer *peer = &p->peers[i];
		if (peer->fd < 0)
			continue;
		int r = polled[i].revents ? read_peer(p, peer) : 0;
		if (r > 0) {
			*ret = *peer;
			peer->fd = -1;
			return 1;
		}
		if (r < 0 || now >= peer->since_ns + CHECK_PEERS_MS * NS_PER_MS)
			close_fd(&peer->fd);
	}
	if (polled[CHECK_PEERS].revents)
		accept_peer(p);
	return 0;
}
