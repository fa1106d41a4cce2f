/* SPDX-License-Identifier: MIT */
/*
 * Where the coordinator listens for its pilots: one TCP address of this host, the one that is routed towards the nodes,
 * never all of them. Address, port and challenge are in `slurm.address` in the queue's folder (address_file.h),
 * where pilots read them before each connection. A coordinator that is restarted takes the same port if it is free.
 *
 * Connections that have not proven the secret are limited in number and in time, and cost a few hundred bytes
 * each. Beyond the limit the oldest one without an opening of a pilot is closed (tunnel.h): other users can make pilots
 * wait, but can neither exhaust the coordinator nor keep pilots out. An opening is valid for one listener, which takes
 * it once. It remembers the last LISTENER_OPENINGS of them; only processes that know the secret can add to these.
 */
#ifndef SLURM_LISTENER_H
#define SLURM_LISTENER_H

#include <stdint.h>

#include "gpu_dispatch.h"
#include "slurm/link.h"

/* Limit of connections that have not proven the secret. */
#define LISTENER_STRANGERS 64
/* Openings that are remembered. Pilots send one per connection. */
#define LISTENER_OPENINGS 4096

struct listener;

struct listener_options {
	struct loop *loop;
	int dir_fd;       /* the queue's directory */
	const char *file; /* name of the file with the address; NULL: that of the coordinator */
	const char
		*towards; /* a host that is reached through the same network as the nodes: the controller, or a node */
	const uint8_t *secret; /* of the queue */
	uint64_t epoch;
	/* For links that have proven the secret: `opened` hands them over, and the owner destroys them. */
	const struct link_ops *ops;
	void *context;
};

/* A listening socket without a listener. */
struct listener_address {
	int fd;
	char host[128]; /* numeric */
	uint16_t port;
};
/* Binds to the local address that is routed towards the host; uses `port` if it is free and not 0. */
int listener_bind(const char *towards, uint16_t port, struct listener_address *ret, struct gd_error *err);

int listener_open(const struct listener_options *options, struct listener **ret, struct gd_error *err);
/* Also closes unauthenticated links, but not those that were handed over. NULL is allowed. */
void listener_close(struct listener *l);
uint16_t listener_port(const struct listener *l);

#endif
