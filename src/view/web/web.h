/* SPDX-License-Identifier: MIT */
/*
 * A model as a page in a browser, and as metrics: an HTTP server on a loop.
 *
 * One thread: requests are answered from inside loop_round(). Pages that are open
 * get what changed as server-sent events, at most some times a second, each when its
 * own connection has room: a slow one holds back nobody and gets less, not later.
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
	const char *token;         /* who has it may do everything */
	const char *metrics_token; /* who has it may read the metrics; NULL: there is none */
	bool open_read;            /* others may look, but neither act nor see an environment */
	const char *const *hosts;  /* names of this machine, beside localhost, that a browser may ask for */
	size_t num_hosts;
	struct view_model *model;
	const struct view_actions *actions;
};

/* Listens from here on. `o` is copied but for what it points to. -EADDRINUSE and the like with words. */
int web_open(const struct web_options *o, struct loop *loop, struct web **ret, struct gd_error *err);
void web_close(struct web *w); /* NULL is fine */

/* "http://gpuq-….localhost:8765/" on loopback, else "http://10.0.0.7:8765/", with the port that it got. */
const char *web_address(const struct web *w);
/* The path of the Unix socket; NULL: it is TCP. */
const char *web_socket_path(const struct web *w);
/* Whether other machines can reach it. */
bool web_is_public(const struct web *w);

/* After each change of the model. */
void web_changed(struct web *w);

#endif
