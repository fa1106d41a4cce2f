/* SPDX-License-Identifier: MIT */
#include "view/web/web_peer.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"

union end {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_storage room;
};

struct question {
	struct nlmsghdr header;
	struct inet_diag_req_v2 request;
};

static void put_address(const union end *end, __be32 address[4], __be16 *port)
{
	if (end->any.sa_family == AF_INET) {
		memcpy(address, &end->v4.sin_addr, sizeof(end->v4.sin_addr));
		*port = end->v4.sin_port;
	} else {
		memcpy(address, &end->v6.sin6_addr, sizeof(end->v6.sin6_addr));
		*port = end->v6.sin6_port;
	}
}

/*
 * The user of the socket whose own end is `peer`: -ENOENT if there is none on this machine. A socket that its process
 * has closed has no owner, and the kernel then reports root: -ESTALE.
 */
static int find_user(const union end *peer, const union end *ours, uid_t *ret)
{
	struct question q = {
		.header = {.nlmsg_len = sizeof(q), .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
		.request = {.sdiag_family = (__u8)peer->any.sa_family,
			.sdiag_protocol = IPPROTO_TCP,
			.idiag_states = ~0u,
			.id = {.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
	};
	union {
		struct nlmsghdr header;
		char room[8192];
	} answer;
	put_address(peer, q.request.id.idiag_src, &q.request.id.idiag_sport);
	put_address(ours, q.request.id.idiag_dst, &q.request.id.idiag_dport);
	cleanup_(closep) int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (fd < 0 || send(fd, &q, sizeof(q), 0) < 0)
		return -errno;
	ssize_t n = recv(fd, &answer, sizeof(answer), 0);
	if (n < 0)
		return -errno;
	if (!NLMSG_OK(&answer.header, (size_t)n))
		return -EBADMSG;
	if (answer.header.nlmsg_type == NLMSG_ERROR) {
		const struct nlmsgerr *e = NLMSG_DATA(&answer.header);
		return answer.header.nlmsg_len >= NLMSG_LENGTH(sizeof(*e)) && e->error < 0 ? e->error : -EBADMSG;
	}
	const struct inet_diag_msg *m = NLMSG_DATA(&answer.header);
	if (answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY || answer.header.nlmsg_len < NLMSG_LENGTH(sizeof(*m)))
		return -EBADMSG;
	if (m->idiag_inode == 0)
		return -ESTALE;
	*ret = m->idiag_uid;
	return 0;
}

static bool is_loopback(const union end *end)
{
	return end->any.sa_family == AF_INET ? ntohl(end->v4.sin_addr.s_addr) >> 24 == 127
					     : IN6_IS_ADDR_LOOPBACK(&end->v6.sin6_addr);
}

static int get_tcp(int fd, const union end *ours, struct web_peer *ret)
{
	union end peer = {0};
	__be32 address[4] = {0};
	__be16 port;
	socklen_t size = sizeof(peer);
	if (getpeername(fd, &peer.any, &size) < 0)
		return -errno;
	int r = find_user(&peer, ours, &ret->user);
	ret->user_known = r == 0;
	ret->is_local = r == 0 || r == -ESTALE || is_loopback(&peer);
	put_address(&peer, address, &port);
	memcpy(ret->address, address, sizeof(ret->address));
	return 0;
}

int web_peer_get(int fd, struct web_peer *ret)
{
	union end ours = {0};
	struct web_peer peer = {0};
	socklen_t size = sizeof(ours);
	if (getsockname(fd, &ours.any, &size) < 0)
		return -errno;
	if (ours.any.sa_family == AF_INET || ours.any.sa_family == AF_INET6) {
		int r = get_tcp(fd, &ours, &peer);
		if (r < 0)
			return r;
	} else {
		struct ucred who;
		size = sizeof(who);
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0)
			return -errno;
		peer = (struct web_peer){.is_local = true, .user_known = true, .user = who.uid};
	}
	*ret = peer;
	return 0;
}
