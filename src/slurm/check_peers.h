/* SPDX-License-Identifier: MIT */
/*
 * Connections to `gpuq slurm check`; one of them sends the report of the node. Other users can connect, too: only a
 * complete report that begins with the token is returned. A connection that has not sent one within CHECK_PEERS_MS in
 * total is closed. Connections do not wait for each other; beyond CHECK_PEERS of them the oldest one is closed.
 */
#ifndef SLURM_CHECK_PEERS_H
#define SLURM_CHECK_PEERS_H

#include <stddef.h>
#include <stdint.h>

#include "slurm/node_check.h"

#define CHECK_PEERS    16
#define CHECK_PEERS_MS 2000

struct check_peer {
	int fd;            /* -1: free */
	uint64_t since_ns; /* when it was accepted */
	int64_t since_ms;  /* the same, by the clock of this host */
	size_t have;
	char report[NODE_CHECK_ROOM];
};

struct check_peers {
	int listen_fd;     /* non-blocking; borrowed */
	const char *token; /* borrowed */
	struct check_peer peers[CHECK_PEERS];
};

void check_peers_init(struct check_peers *p, int listen_fd, const char *token);
/* Closes all connections. */
void check_peers_finish(struct check_peers *p);

/*
 * Waits up to timeout_ms for something to happen. 1: *ret has the report, its connection and the time of its arrival;
 * the caller closes the connection. 0: no report yet. -EINTR: a signal was handled.
 */
int check_peers_wait(struct check_peers *p, int timeout_ms, struct check_peer *ret);

#endif
