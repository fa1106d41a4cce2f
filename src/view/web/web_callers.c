/* SPDX-License-Identifier: MIT */
#include "view/web/web_callers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define FIRST_REQUEST_NS (10 * NS_PER_S) /* from accept() to the end of the headers */
#define REQUEST_NS       (60 * NS_PER_S) /* from there to the end of the answer: up to a megabyte of a log */
#define NEXT_REQUEST_NS  (30 * NS_PER_S) /* from there to the end of the next headers */

struct limits {
	size_t all, each;             /* connections; each: except the owner's, for which all is the limit */
	size_t streams, streams_each; /* each: without the token */
};

static const struct limits limits[WEB_CALLER_KINDS] = {
	[WEB_CALLER_OWNER] = {128, 128, 64, 32},
	[WEB_CALLER_USER] = {96, 32, 32, 8},
	[WEB_CALLER_REMOTE] = {96, 32, 32, 8},
};
_Static_assert(128 + 96 + 96 == WEB_CALLERS_MAX, "the sum of all kinds");

static enum web_caller_kind kind_of(const struct web_peer *peer)
{
	if (!peer->is_local)
		return WEB_CALLER_REMOTE;
	return peer->user_known && peer->user == geteuid() ? WEB_CALLER_OWNER : WEB_CALLER_USER;
}

static bool is_same(const struct web_peer *a, const struct web_peer *b)
{
	if (a->is_local)
		return a->user_known == b->user_known && a->user == b->user;
	return memcmp(a->address, b->address, sizeof(a->address)) == 0;
}

enum { CONNECTIONS, STREAMS_WITHOUT_TOKEN, OTHER_THAN_STREAMS };

static bool counts_as(const struct web_caller *caller, int which)
{
	return which == CONNECTIONS ||
	       (which == OTHER_THAN_STREAMS ? !caller->streams : caller->streams && !caller->has_token);
}

static size_t count_same(const struct web_callers *c, enum web_caller_kind kind, const struct web_peer *peer, int which)
{
	size_t n = 0;
	for (const struct web_caller *other = c->first; other; other = other->next)
		if (other->kind == kind && !other->cut && counts_as(other, which) && is_same(&other->peer, peer))
			n++;
	return n;
}

/* The least recently used connection of the user or address with the most, if that is more than this peer has. */
static struct web_caller *choose_victim(
	const struct web_callers *c, enum web_caller_kind kind, const struct web_peer *peer)
{
	struct web_caller *victim = NULL;
	size_t most = count_same(c, kind, peer, OTHER_THAN_STREAMS) + 1;
	for (struct web_caller *other = c->first; other; other = other->next) {
		if (other->kind != kind || other->cut || other->streams)
			continue;
		size_t n = count_same(c, kind, &other->peer, OTHER_THAN_STREAMS);
		if (n > most || (n == most && (!victim || other->used_ns < victim->used_ns))) {
			most = n;
			victim = other;
		}
	}
	return victim;
}

/*
 * The oldest connection of the owner that has not shown the token: others may have made it through the owner's tunnel.
 * By age, because requests without the token would make a connection look used. Streams have a limit of their own.
 */
static struct web_caller *choose_without_token(const struct web_callers *c)
{
	struct web_caller *victim = NULL;
	for (struct web_caller *other = c->first; other; other = other->next)
		if (other->kind == WEB_CALLER_OWNER && !other->cut && !other->streams && !other->has_token)
			victim = other;
	return victim;
}

static bool make_room(struct web_callers *c, enum web_caller_kind kind, const struct web_peer *peer)
{
	if (kind != WEB_CALLER_OWNER && count_same(c, kind, peer, CONNECTIONS) >= limits[kind].each)
		return false;
	if (c->count[kind] < limits[kind].all)
		return true;
	if (c->num_cut >= WEB_CALLERS_CUT)
		return false;
	struct web_caller *victim = kind == WEB_CALLER_OWNER ? choose_without_token(c) : choose_victim(c, kind, peer);
	if (!victim)
		return false;
	victim->cut = true;
	c->num_cut++;
	c->count[kind]--;
	shutdown(victim->fd, SHUT_RDWR);
	return true;
}

struct web_caller *web_callers_add(struct web_callers *c, const struct web_peer *peer, int fd, uint64_t now_ns)
{
	enum web_caller_kind kind = kind_of(peer);
	if (!make_room(c, kind, peer))
		return NULL;
	struct web_caller *caller = calloc(1, sizeof(*caller));
	if (!caller)
		return NULL;
	*caller = (struct web_caller){.next = c->first,
		.kind = kind,
		.peer = *peer,
		.fd = fd,
		.used_ns = now_ns,
		.deadline_ns = now_ns + FIRST_REQUEST_NS};
	if (c->first)
		c->first->previous = caller;
	c->first = caller;
	c->count[kind]++;
	return caller;
}

void web_callers_remove(struct web_callers *c, struct web_caller *caller)
{
	if (!caller)
		return;
	web_callers_end_stream(c, caller);
	if (caller->previous)
		caller->previous->next = caller->next;
	else
		c->first = caller->next;
	if (caller->next)
		caller->next->previous = caller->previous;
	if (caller->cut)
		c->num_cut--;
	else
		c->count[caller->kind]--;
	free(caller);
}

void web_callers_promote(struct web_callers *c, struct web_caller *caller)
{
	caller->has_token = true;
	if (caller->cut || caller->kind == WEB_CALLER_OWNER || !make_room(c, WEB_CALLER_OWNER, &caller->peer))
		return;
	c->count[caller->kind]--;
	c->count[WEB_CALLER_OWNER]++;
	caller->kind = WEB_CALLER_OWNER;
}

void web_caller_begin(struct web_caller *caller, uint64_t now_ns)
{
	caller->used_ns = now_ns;
	caller->deadline_ns = now_ns + REQUEST_NS;
}

void web_caller_end(struct web_caller *caller, uint64_t now_ns)
{
	caller->used_ns = now_ns;
	caller->deadline_ns = now_ns + NEXT_REQUEST_NS;
}

bool web_callers_begin_stream(struct web_callers *c, struct web_caller *caller)
{
	const struct limits *l = &limits[caller->kind];
	bool each = (caller->kind == WEB_CALLER_OWNER && caller->has_token) ||
		    count_same(c, caller->kind, &caller->peer, STREAMS_WITHOUT_TOKEN) < l->streams_each;
	if (caller->cut || caller->streams || c->streams[caller->kind] >= l->streams || !each)
		return false;
	caller->streams = true;
	caller->deadline_ns = 0;
	c->streams[caller->kind]++;
	return true;
}

void web_callers_end_stream(struct web_callers *c, struct web_caller *caller)
{
	if (!caller->streams)
		return;
	caller->streams = false;
	c->streams[caller->kind]--;
}

void web_callers_expire(struct web_callers *c, uint64_t now_ns)
{
	for (struct web_caller *caller = c->first; caller; caller = caller->next) {
		if (caller->deadline_ns == 0 || now_ns < caller->deadline_ns)
			continue;
		caller->deadline_ns = 0;
		shutdown(caller->fd, SHUT_RDWR);
	}
}
