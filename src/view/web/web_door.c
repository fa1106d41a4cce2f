/* SPDX-License-Identifier: MIT */
/*
 * Accepts connections, identifies their users, and hands connections within the limits to the daemon. The daemon does
 * not listen itself: it would count all callers together.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "view/web/web_private.h"

/* Connections accepted in one round of the loop, so that existing connections get their turn. */
#define MAX_ACCEPTS 64
#define PATROL_NS   NS_PER_S

/* Refuse other users on a Unix socket, whatever the permissions of its file. */
static bool is_welcome(const struct web *w, const struct web_peer *peer)
{
	return !w->place.path[0] || peer->user == geteuid();
}

static void admit(struct web *w, int *fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_storage room;
	} address = {0};
	socklen_t size = sizeof(address);
	struct web_peer peer;
	if (web_peer_get(*fd, &peer) < 0 || !is_welcome(w, &peer) || getpeername(*fd, &address.any, &size) < 0)
		return;
	struct web_caller *caller = web_callers_add(&w->callers, &peer, *fd, clock_now_ns());
	if (!caller) {
		w->num_refused++;
		return;
	}
	w->arriving = caller;
	/* The daemon closes the descriptor in any case. */
	MHD_add_connection(w->daemon, take_fd(fd), &address.any, size);
	/* Still set if the daemon did not take over the connection. */
	web_callers_remove(&w->callers, take_ptr(w->arriving));
}

static void on_door(void *context, uint32_t events)
{
	struct web *w = context;
	(void)events;
	for (int i = 0; i < MAX_ACCEPTS; i++) {
		cleanup_(closep) int fd = accept4(w->place.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			admit(w, &fd);
			continue;
		}
		/* Out of descriptors or memory: the next patrol resumes accepting. */
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			loop_change(w->door, 0);
		break;
	}
	loop_set_deadline(w->patrol, clock_now_ns() + PATROL_NS);
	web_run(w, 0);
}

static void on_patrol(void *context, uint32_t events)
{
	struct web *w = context;
	uint64_t now_ns = clock_now_ns();
	(void)events;
	web_callers_expire(&w->callers, now_ns);
	loop_change(w->door, EPOLLIN);
	loop_set_deadline(w->patrol, w->callers.first ? now_ns + PATROL_NS : 0);
	web_run(w, 0);
}

int web_door_open(struct web *w)
{
	int r = loop_add_timer(w->loop, on_patrol, w, &w->patrol);
	return r < 0 ? r : loop_add(w->loop, w->place.fd, EPOLLIN, on_door, w, &w->door);
}

void web_door_close(struct web *w)
{
	loop_remove(w->door);
	loop_remove(w->patrol);
	w->door = w->patrol = NULL;
}

void web_door_notify(
	void *web, struct MHD_Connection *c, void **socket_context, enum MHD_ConnectionNotificationCode code)
{
	struct web *w = web;
	(void)c;
	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		*socket_context = take_ptr(w->arriving);
	else
		web_callers_remove(&w->callers, *socket_context);
}

struct web_caller *web_caller_of(struct MHD_Connection *c)
{
	return MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}
