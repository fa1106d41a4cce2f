/* SPDX-License-Identifier: MIT */
/*
 * Who is at the other end of a connection. For users of this machine the kernel tells: SO_PEERCRED for Unix sockets,
 * sock_diag(7) for TCP.
 */
#ifndef VIEW_WEB_WEB_PEER_H
#define VIEW_WEB_WEB_PEER_H

#include <stdbool.h>
#include <sys/types.h>

struct web_peer {
	bool is_local;
	bool user_known; /* of a local one; false: closed already, or the kernel does not tell */
	uid_t user;
	unsigned char address[16]; /* of a remote one */
};

/* Of a connection that was just accepted; 0 or a negative errno value. */
int web_peer_get(int fd, struct web_peer *ret);

#endif
