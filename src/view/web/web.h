/* SPDX-License-Identifier: MIT */
/*
 * A model as a page in a browser, and as metrics: an HTTP server on a loop.
 *
 * Single-threaded: requests are answered inside loop_round(). Open pages get changes as server-sent events, at most a
 * few times per second, each when its own connection is writable: a slow page does not delay others and skips updates
 * instead of lagging.
 */
#ifndef VIEW_WEB_WEB_H
#define VIEW_WEB_WEB_H

#include "base/loop.h"
#include "gpu_dispatch.h"
#include "view/model/actions.h"
#include "view/model/model.h"

#define WEB_LISTEN "127.0.0.1:8765"

struct web;

struct web_options {
	const char *listen;        /* "127.0.0.1:8765", "[::1]:0", "localhost:8765", "unix:PATH"; NULL: WEB_LISTEN */
	const char *token;         /* allows everything */
	const char *metrics_token; /* allows reading the metrics; NULL: none */
	bool open_read;            /* without the token, reading is allowed, but not actions or environments */
	const char *const *hosts;  /* names of this machine that a browser may use, besides that of web_address() */
	size_t num_hosts;
	struct view_model *model;
	const struct view_actions *actions;
};

/* Starts listening. `o` is copied, but not what it points to. -EADDRINUSE etc. with a message. */
int web_open(const struct web_options *o, struct loop *loop, struct web **ret, struct gd_error *err);
void web_close(struct web *w); /* NULL is fine */

/* "http://gpuq-….localhost:8765/" on loopback, otherwise "http://10.0.0.7:8765/", with the actual port. */
const char *web_address(const struct web *w);
/* The path of the Unix socket; NULL: TCP. */
const char *web_socket_path(const struct web *w);
/* Whether other machines can reach it. */
bool web_is_public(const struct web *w);

/* Call it after each change of the model. */
void web_changed(struct web *w);

#endif
