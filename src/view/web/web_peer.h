/* SPDX-License-Identifier: MIT */
/*
 * The user or address at the other end of a connection. The kernel knows the users of this machine: SO_PEERCRED for
 * Unix sockets, sock_diag(7) for TCP.
 */
#ifndef VIEW_WEB_WEB_PEER_H
#define VIEW_WEB_WEB_PEER_H

#include <stdbool.h>
#include <sys/types.h>

struct web_peer {
	bool is_local;
	bool user_known; /* of a local peer; false: already closed, or not reported by the kernel */
	uid_t user;
	unsigned char address[16]; /* of a remote peer */
};

/* The peer of a connection that was just accepted; 0 or a negative errno value. */
int web_peer_get(int fd, struct web_peer *ret);

#endif
