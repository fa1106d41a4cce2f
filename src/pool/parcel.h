/* SPDX-License-Identifier: MIT */
/*
 * A payload that is too large for an arena: a separate memfd, written once, sealed, and sent over the worker's socket
 * before the record that announces it.
 */
#ifndef POOL_PARCEL_H
#define POOL_PARCEL_H

#include <stdbool.h>
#include <stddef.h>

struct parcel {
	int fd;     /* -1: none */
	void *data; /* mapped, or NULL */
	size_t size;
};

#define PARCEL_NONE ((struct parcel){.fd = -1})

/* Creates one of `size` bytes, mapped for writing. */
int parcel_create(size_t size, struct parcel *ret);

/* After writing: truncates it to `size`, seals it, maps it read-only. */
int parcel_seal(struct parcel *p, size_t size);

/* Creates a sealed one with these bytes. */
int parcel_fill(const void *data, size_t size, struct parcel *ret);

/* Sends it. -EAGAIN if the socket is full and `wait` is false. */
int parcel_send(const struct parcel *p, int sock, bool wait);

/*
 * Receives the next parcel. -EPROTO if there is none, or if the message is not one sealed memfd of at least `size`
 * bytes: mapping anything else could fault later. -EPIPE if there is none and the other side is gone. Other errors are
 * caused by this process. Descriptors that are not returned are closed.
 */
int parcel_receive(int sock, size_t size, bool wait, struct parcel *ret);

/*
 * Maps a sealed memfd of any size read-only, for as long as the process lives and
 * for its children; the descriptor stays the caller's. -EPROTO if it is not sealed.
 */
int parcel_map_sealed(int fd, const void **ret_data, size_t *ret_size);

void parcel_finish(struct parcel *p);

#endif
