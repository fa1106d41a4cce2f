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
};

/* "ADDRESS:PORT" with the address in numbers, an IPv6 one in brackets, or "localhost"; port 0: any that is free. */
int web_listen(const char *where, struct web_place *ret, struct gd_error *err);

/* The address of a connection on our side, as it stands in a Host header. */
int web_local_name(int fd, char *ret, size_t size);

#endif
