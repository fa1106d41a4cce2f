/* SPDX-License-Identifier: MIT */
/* Where the page's server listens. */
#ifndef VIEW_WEB_WEB_LISTEN_H
#define VIEW_WEB_WEB_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu_dispatch.h"

struct web_place {
	int fd;           /* a socket that listens */
	bool loopback;    /* other machines cannot reach it */
	char host[64];    /* as it stands in a Host header: "127.0.0.1", "[::1]" */
	char address[96]; /* "http://127.0.0.1:8765/" */
	char path[108];   /* of a Unix socket; "": it is TCP */
};

#define WEB_LISTEN_UNIX "unix:"
/* The address in a browser that reaches a Unix socket through 'ssh -L 127.0.0.1:8765:PATH'. Not
 * "localhost": a browser would ask [::1] first, where another user of that machine may listen for the token. */
#define WEB_UNIX_ADDRESS "http://127.0.0.1:8765/"

/*
 * "ADDRESS:PORT" with the address in numbers, an IPv6 one in brackets, or "localhost"; port 0: any that is free. Or
 * "unix:PATH": a socket for this user alone, in a directory in which no other user can replace it (-EPERM otherwise).
 * A socket that nobody listens on any more is replaced.
 */
int web_listen(const char *where, struct web_place *ret, struct gd_error *err);

/* Closes the socket if it is still open, and removes a Unix socket. */
void web_place_close(struct web_place *place);

/* The address of a connection on our side, as it stands in a Host header. */
int web_local_name(int fd, char *ret, size_t size);

#endif
