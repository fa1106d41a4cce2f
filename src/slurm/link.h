/* SPDX-License-Identifier: MIT */
/*
 * A connection between a pilot and its coordinator, or between the two ends of a launch (file_message.h): a socket, a
 * tunnel on it, and frames.
 *
 * Nothing blocks. A peer that has not proven the secret after LINK_OPENING_MS is disconnected, and so is a pilot that
 * has not sent a frame by then. Callbacks are called from the loop, never inside a call of the owner; `closed` is
 * called once, and never after link_destroy().
 */
#ifndef SLURM_LINK_H
#define SLURM_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu_dispatch.h"
#include "slurm/frame.h"
#include "slurm/mac.h"
#include "slurm/tunnel.h"

#define LINK_OPENING_MS 10000

struct link;
struct loop;

struct link_ops {
	/*
	 * Coordinator, optional: the peer has sent an opening with this nonce that was made with the secret, but
	 * perhaps not by this peer. Negative: close without an answer.
	 */
	int (*opening)(void *context, struct link *l, const uint8_t nonce[TUNNEL_NONCE_SIZE]);
	void (*opened)(void *context, struct link *l);                       /* the peer has proven the secret */
	void (*frame)(void *context, struct link *l, const struct frame *f); /* valid during the call */
	/* Instead of `frame`, for an owner with other messages: the bytes, valid during the call. Negative: close. */
	int (*bytes)(void *context, struct link *l, const void *data, size_t size);
	void (*closed)(void *context, struct link *l, int reason); /* 0: the peer closed; else a negative errno value */
};

/* Takes ownership of the socket, even on failure. number: as for tunnel_init(). */
int link_create(struct loop *loop, int fd, enum tunnel_role role, const uint8_t secret[MAC_KEY_SIZE], uint64_t number,
	const struct link_ops *ops, void *context, struct link **ret);
/* Passes the callbacks to another owner. */
void link_hand_over(struct link *l, const struct link_ops *ops, void *context);
/* Closes at once; queued frames are still sent if the socket accepts them. Safe inside callbacks. NULL is allowed. */
void link_destroy(struct link *l);

/*
 * Queues a frame. The frames of one round of the loop are sent together, before it waits again. -ENOTCONN before
 * `opened`; -ENOMEM.
 */
int link_send(struct link *l, const struct frame *f);
/* Coordinator: the peer has sent an opening that was made with the secret. */
bool link_has_opening(const struct link *l);
/* For an owner with `bytes`. */
int link_send_bytes(struct link *l, const void *data, size_t size);
/* Reported by the peer; valid once the tunnel is open. */
uint64_t link_epoch(const struct link *l);
uint64_t link_slurm_job(const struct link *l);

/* Starts to connect; pass the socket to link_create() at once. host: an address or a name. */
int link_connect(const char *host, uint16_t port, int *ret_fd);
/*
 * For pilots: starts to connect to the listener that has written this file. secret: that of the queue. Also fails as
 * address_file_read() does.
 */
int link_connect_to(struct loop *loop, int dir_fd, const char *file, const uint8_t secret[MAC_KEY_SIZE],
	uint64_t slurm_job, const struct link_ops *ops, void *context, struct link **ret);

#endif
