/* SPDX-License-Identifier: MIT */
/* Where the page's server listens. */
#ifndef VIEW_WEB_WEB_LISTEN_H
#define VIEW_WEB_WEB_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu_dispatch.h"
#include "view/web/web_gate.h"

/*
 * On loopback the page has a new host name at each start, "gpuq-….localhost". Browsers resolve
 * such names to loopback themselves. With a fixed name, all starts would be one origin, and an earlier listener on the
 * port could have left a cached page or a service worker that reads the next token.
 */
struct web_place {
	int fd;        /* the listening socket */
	int guard_fd;  /* holds the same port of the other loopback address, which browsers may try first; or -1 */
	bool loopback; /* other machines cannot reach it */
	char host[64]; /* as in a Host header: "127.0.0.1", "[::1]" */
	char site[WEB_SITE_ROOM]; /* the host name of this start; "": not on 127.0.0.1, [::1] or a Unix socket */
	char address[96];         /* "http://gpuq-….localhost:8765/", "http://10.0.0.7:8765/" */
	char path[108];           /* of a Unix socket; "": TCP */
};

#define WEB_LISTEN_UNIX "unix:"
/* The permanent browser address for a Unix socket that is reached through 'ssh -L'. */
#define WEB_UNIX_ADDRESS "http://127.0.0.1:8765/"
#define WEB_UNIX_PORT    8765

/*
 * "ADDRESS:PORT" with a numeric address, IPv6 in brackets, or "localhost"; port 0: any free port. Or "unix:PATH": a
 * socket for this user only, in a directory in which no other user can replace it (-EPERM otherwise). A socket without
 * a listener is replaced.
 */
int web_listen(const char *where, struct web_place *ret, struct gd_error *err);

/* Closes the socket if it is still open, and removes a Unix socket. */
void web_place_close(struct web_place *place);

/* The local address of a connection, as in a Host header. */
int web_local_name(int fd, char *ret, size_t size);

#endif
