/* SPDX-License-Identifier: MIT */
/*
 * The clients of the page's server, and their connection limits.
 *
 * Three kinds of callers have separate limits, so that none can lock out another: the owner (the user who runs the
 * server, and everyone who has given the token), the other users of this machine, and other machines. Within the last
 * two kinds, each user or address also has a limit. A user can still have many ids (/etc/subuid), and a machine many
 * addresses: if such a kind is full, a user or address with fewer connections gets the place of one with the most.
 *
 * Connections through the owner's `ssh -L` count as the owner's, whoever has made them. So if the owner's limit is
 * reached, a new connection gets the place of the oldest one that has not shown the token, and a part of the streams
 * is reserved for connections that have shown it.
 *
 * A caller has a deadline for each request, from its first byte to the end of the answer, and for the next request
 * on the same connection. An event stream has no deadline.
 */
#ifndef VIEW_WEB_WEB_CALLERS_H
#define VIEW_WEB_WEB_CALLERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "view/web/web_peer.h"

enum web_caller_kind {
	WEB_CALLER_OWNER,
	WEB_CALLER_USER,
	WEB_CALLER_REMOTE,
	WEB_CALLER_KINDS,
};

struct web_caller {
	struct web_caller *next, *previous;
	enum web_caller_kind kind;
	struct web_peer peer;
	int fd;
	bool streams;
	bool has_token;       /* has shown it in a request */
	bool cut;             /* shut down for another caller; the server will remove it */
	uint64_t used_ns;     /* the last accept(), beginning or end of a request */
	uint64_t deadline_ns; /* 0: none */
};

/* Start from {0}. */
struct web_callers {
	struct web_caller *first;
	size_t count[WEB_CALLER_KINDS], streams[WEB_CALLER_KINDS]; /* without those that are cut */
	size_t num_cut;
};

/* The most connections at the same time, and how many more there can be until the server has removed those that are
 * cut. */
#define WEB_CALLERS_MAX 320
#define WEB_CALLERS_CUT 64

/*
 * Adds an accepted connection. If its kind is full, may cut another one of this kind, except streams: the oldest one
 * without the token if they are the owner's, else the least recently used one of the user or address with the most.
 * NULL: its kind, user or address has too many, or out of memory.
 */
struct web_caller *web_callers_add(struct web_callers *c, const struct web_peer *peer, int fd, uint64_t now_ns);
void web_callers_remove(struct web_callers *c, struct web_caller *caller);

/* The caller has given the token: from now on it counts against the owner's limit, if there is space for it. */
void web_callers_promote(struct web_callers *c, struct web_caller *caller);

/* A request has arrived, or its answer has been sent: sets the next deadline. */
void web_caller_begin(struct web_caller *caller, uint64_t now_ns);
void web_caller_end(struct web_caller *caller, uint64_t now_ns);

/* Whether the caller may have an event stream; if so, the caller has no deadline until web_callers_end_stream(). */
bool web_callers_begin_stream(struct web_callers *c, struct web_caller *caller);
void web_callers_end_stream(struct web_callers *c, struct web_caller *caller);

/* Shuts down the connections whose deadline has passed; the server then finds them closed. */
void web_callers_expire(struct web_callers *c, uint64_t now_ns);

#endif
