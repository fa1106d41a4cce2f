/* SPDX-License-Identifier: MIT */
#include "slurm/listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/loop.h"
#include "slurm/address_file.h"
#include "slurm/agent.h"

/* Connections accepted in one round. */
#define ACCEPTS 16

struct listener {
	struct listener_options options;
	uint8_t key[MAC_KEY_SIZE]; /* of its tunnels */
	int fd;
	uint16_t port;
	struct loop_source *source;
	struct link *strangers[LISTENER_STRANGERS]; /* the oldest first */
	size_t num_strangers;
	uint64_t openings[LISTENER_OPENINGS]; /* the first bytes of nonces: a ring */
	size_t num_openings;                  /* ever added */
};

/* ---- Strangers ------------------------------------------------------------------------ */

static bool forget_stranger(struct listener *l, const struct link *link)
{
	for (size_t i = 0; i < l->num_strangers; i++)
		if (l->strangers[i] == link) {
			memmove(&l->strangers[i], &l->strangers[i + 1],
				(--l->num_strangers - i) * sizeof(l->strangers[0]));
			return true;
		}
	return false;
}

/* The oldest one that has not sent an opening; if there is none, the oldest one. */
static void close_one(struct listener *l)
{
	size_t i = 0;
	while (i < l->num_strangers && link_has_opening(l->strangers[i]))
		i++;
	struct link *link = l->strangers[i < l->num_strangers ? i : 0];
	(void)forget_stranger(l, link);
	link_destroy(link);
}

/* Accepts each opening once: many connections that repeat a recorded opening would displace pilots. */
static int on_opening(void *context, struct link *link, const uint8_t nonce[TUNNEL_NONCE_SIZE])
{
	struct listener *l = context;
	uint64_t opening;
	(void)link;
	memcpy(&opening, nonce, sizeof(opening));
	for (size_t i = 0; i < l->num_openings && i < LISTENER_OPENINGS; i++)
		if (l->openings[i] == opening)
			return -EKEYREJECTED;
	l->openings[l->num_openings++ % LISTENER_OPENINGS] = opening;
	return 0;
}

static void on_opened(void *context, struct link *link)
{
	struct listener *l = context;
	(void)forget_stranger(l, link);
	link_hand_over(link, l->options.ops, l->options.context);
	l->options.ops->opened(l->options.context, link);
}

static void on_closed(void *context, struct link *link, int reason)
{
	(void)reason;
	(void)forget_stranger(context, link);
	link_destroy(link);
}

static void on_connection(void *context, uint32_t events)
{
	/* No frame arrives before the link is open, and an open link is handed over. */
	static const struct link_ops ops = {.opening = on_opening, .opened = on_opened, .closed = on_closed};
	struct listener *l = context;
	(void)events;
	for (int i = 0; i < ACCEPTS; i++) {
		struct link *link;
		int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			return; /* perhaps too many files are open: the next round tries again */
		if (l->num_strangers == LISTENER_STRANGERS)
			close_one(l);
		if (link_create(l->options.loop, fd, TUNNEL_COORDINATOR, l->key, l->options.epoch, &ops, l, &link) == 0)
			l->strangers[l->num_strangers++] = link;
	}
}

/* ---- The address ---------------------------------------------------------------------- */

/* The local address from which packets to `towards` are sent: the kernel chooses it without sending any. */
static int find_address(const char *towards, struct sockaddr_storage *ret, socklen_t *ret_size)
{
	struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICSERV}, *list = NULL;
	int r = getaddrinfo(towards, "9", &hints, &list);
	if (r != 0)
		return r == EAI_SYSTEM ? -errno : r == EAI_MEMORY ? -ENOMEM : -EHOSTUNREACH;
	r = -EHOSTUNREACH;
	for (const struct addrinfo *a = list; a && r < 0; a = a->ai_next) {
		*ret_size = sizeof(*ret);
		cleanup_(closep) int fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0 &&
			getsockname(fd, (struct sockaddr *)ret, ret_size) == 0)
			r = 0;
		else
			r = -errno;
	}
	freeaddrinfo(list);
	return r;
}

static void set_port(struct sockaddr_storage *a, uint16_t port)
{
	if (a->ss_family == AF_INET6)
		((struct sockaddr_in6 *)a)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)a)->sin_port = htons(port);
}

static uint16_t get_port(const struct sockaddr_storage *a)
{
	return ntohs(a->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)a)->sin6_port
					      : ((const struct sockaddr_in *)a)->sin_port);
}

/* The port of the previous coordinator; 0: any. */
static uint16_t last_port(int dir_fd, const char *file)
{
	struct address_file a;
	return address_file_read(dir_fd, file, &a) == 0 ? a.port : 0;
}

static int bind_to(struct sockaddr_storage *a, socklen_t size, uint16_t port, int *ret_fd)
{
	int on = 1;
	cleanup_(closep) int fd = socket(a->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	set_port(a, port);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
		bind(fd, (const struct sockaddr *)a, size) < 0 || listen(fd, 128) < 0 ||
		getsockname(fd, (struct sockaddr *)a, &size) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

int listener_bind(const char *towards, uint16_t port, struct listener_address *ret, struct gd_error *err)
{
	struct sockaddr_storage a;
	socklen_t size = sizeof(a);
	int r = find_address(towards, &a, &size);
	if (r < 0)
		return error_set(
			err, r, "cannot find the address for connections from '%s': %s", towards, error_words(r));
	r = bind_to(&a, size, port, &ret->fd);
	if (r < 0 && port)
		r = bind_to(&a, size, 0, &ret->fd);
	if (r < 0)
		return error_set(err, r, "cannot listen for pilots: %s", error_words(r));
	ret->port = get_port(&a);
	if (getnameinfo((const struct sockaddr *)&a, size, ret->host, sizeof(ret->host), NULL, 0, NI_NUMERICHOST) == 0)
		return 0;
	close_fd(&ret->fd);
	return error_set(err, -EIO, "cannot listen for pilots: the address cannot be printed");
}

/* Publishes the address with a new challenge, and derives the key from it. */
static int publish(struct listener *l, const char *host)
{
	struct address_file a = {.port = l->port};
	snprintf(a.host, sizeof(a.host), "%s", host);
	if (getrandom(a.challenge, sizeof(a.challenge), 0) != sizeof(a.challenge))
		return -EIO;
	address_file_key(&a, l->options.secret, l->key);
	return address_file_write(l->options.dir_fd, l->options.file, &a);
}

int listener_open(const struct listener_options *options, struct listener **ret, struct gd_error *err)
{
	struct listener_address a = {.fd = -1};
	struct listener *l = calloc(1, sizeof(*l));
	if (!l)
		return error_set(err, -ENOMEM, "cannot listen for pilots: out of memory");
	l->options = *options;
	if (!l->options.file)
		l->options.file = AGENT_ADDRESS_FILE;
	int r = listener_bind(options->towards, last_port(options->dir_fd, l->options.file), &a, err);
	l->fd = a.fd;
	l->port = a.port;
	if (r == 0 && (r = publish(l, a.host)) < 0)
		error_set(err, r, "cannot write '%s': %s", l->options.file, error_words(r));
	l->options.secret = NULL; /* the caller's */
	if (r == 0 && (r = loop_add(options->loop, l->fd, EPOLLIN, on_connection, l, &l->source)) < 0)
		error_set(err, r, "cannot listen for pilots: %s", error_words(r));
	if (r < 0) {
		listener_close(l);
		return r;
	}
	*ret = l;
	return 0;
}

void listener_close(struct listener *l)
{
	if (!l)
		return;
	while (l->num_strangers)
		link_destroy(l->strangers[--l->num_strangers]);
	loop_remove(l->source);
	closep(&l->fd);
	explicit_bzero(l->key, sizeof(l->key));
	free(l);
}

uint16_t listener_port(const struct listener *l)
{
	return l->port;
}
