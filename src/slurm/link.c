/* SPDX-License-Identifier: MIT */
#include "slurm/link.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/loop.h"
#include "slurm/address_file.h"
#include "slurm/frame_codec.h"

struct link {
	int fd;
	struct loop_source *source, *timer;
	struct tunnel tunnel;
	size_t sent; /* bytes of tunnel.out */
	bool told_open;
	bool destroyed, busy; /* a link destroyed inside a callback is freed after it */
	const struct link_ops *ops;
	void *context;
	struct frame_arrays arrays;
	struct text bytes;
};

static void release(struct link *l)
{
	loop_remove(l->source);
	loop_remove(l->timer);
	closep(&l->fd);
	tunnel_finish(&l->tunnel);
	frame_arrays_finish(&l->arrays);
	text_finish(&l->bytes);
	free(l);
}

static int flush(struct link *l)
{
	while (l->sent < l->tunnel.out.length) {
		ssize_t n = send(l->fd, l->tunnel.out.data + l->sent, l->tunnel.out.length - l->sent,
			MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && (errno == EAGAIN || errno == ENOTCONN))
			return loop_change(l->source, EPOLLIN | EPOLLOUT);
		if (n < 0 && errno != EINTR)
			return -errno;
		l->sent += n > 0 ? (size_t)n : 0;
	}
	text_clear(&l->tunnel.out);
	l->sent = 0;
	return loop_change(l->source, EPOLLIN);
}

void link_destroy(struct link *l)
{
	if (!l)
		return;
	if (!l->destroyed && l->source && l->told_open)
		(void)flush(l); /* the last frames, such as a refusal */
	l->destroyed = true;
	if (!l->busy)
		release(l);
}

void link_hand_over(struct link *l, const struct link_ops *ops, void *context)
{
	l->ops = ops;
	l->context = context;
}

/* Stops watching the socket; the owner destroys the link. */
static void close_with(struct link *l, int reason)
{
	loop_remove(l->source);
	loop_remove(l->timer);
	l->source = l->timer = NULL;
	if (!l->destroyed)
		l->ops->closed(l->context, l, reason);
}

static int take_frames(struct link *l)
{
	const char *data;
	size_t size;
	int r = 0;
	if (l->tunnel.stage == TUNNEL_OPEN && !l->told_open) {
		l->told_open = true;
		/* The deadline stays for the pilot's hello; a pilot decides itself how long it waits for the answer. */
		if (l->tunnel.role == TUNNEL_PILOT)
			loop_set_deadline(l->timer, 0);
		l->ops->opened(l->context, l);
	}
	while (!l->destroyed && (r = tunnel_next(&l->tunnel, &data, &size)) == 1) {
		struct frame f;
		r = l->ops->bytes ? l->ops->bytes(l->context, l, data, size) : frame_decode(data, size, &l->arrays, &f);
		if (r < 0)
			return r;
		if (l->tunnel.received == 1)
			loop_set_deadline(l->timer, 0);
		if (!l->ops->bytes)
			l->ops->frame(l->context, l, &f);
	}
	return r;
}

/* Returns 1 at the end of the stream. */
static int receive(struct link *l)
{
	char buf[65536];
	ssize_t n = recv(l->fd, buf, sizeof(buf), MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return 1;
	bool opening = l->tunnel.stage != TUNNEL_OPEN, had_opening = link_has_opening(l);
	int r = tunnel_receive(&l->tunnel, buf, (size_t)n);
	if (r == 0 && !had_opening && link_has_opening(l) && l->ops->opening)
		r = l->ops->opening(l->context, l, l->tunnel.pilot_nonce);
	if (r == 0)
		r = take_frames(l);
	if (r >= 0 && !l->destroyed && opening)
		r = flush(l); /* send answers of the opening */
	return r;
}

static void on_socket(void *context, uint32_t events)
{
	struct link *l = context;
	int r = 0;
	/* Deferred: frames that were sent during the round. The loop detects a socket error. */
	if (events == 0) {
		(void)flush(l);
		return;
	}
	l->busy = true;
	if (events & EPOLLOUT)
		r = flush(l);
	if (r == 0 && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		r = receive(l);
	if (r != 0 && !l->destroyed)
		close_with(l, r < 0 ? r : 0);
	l->busy = false;
	if (l->destroyed)
		release(l);
}

static void on_late(void *context, uint32_t events)
{
	struct link *l = context;
	(void)events;
	l->busy = true;
	close_with(l, -ETIMEDOUT);
	l->busy = false;
	if (l->destroyed)
		release(l);
}

int link_create(struct loop *loop, int fd, enum tunnel_role role, const uint8_t secret[MAC_KEY_SIZE], uint64_t number,
	const struct link_ops *ops, void *context, struct link **ret)
{
	struct link *l = calloc(1, sizeof(*l));
	if (!l) {
		close(fd);
		return -ENOMEM;
	}
	l->fd = fd;
	l->ops = ops;
	l->context = context;
	int on = 1;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	int r = fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
	if (r == 0)
		r = tunnel_init(&l->tunnel, role, secret, number);
	if (r == 0)
		r = loop_add(loop, fd, EPOLLIN | EPOLLOUT, on_socket, l, &l->source);
	if (r == 0)
		r = loop_add_timer(loop, on_late, l, &l->timer);
	if (r == 0)
		r = loop_set_deadline(l->timer, clock_now_ns() + LINK_OPENING_MS * NS_PER_MS);
	if (r < 0) {
		release(l);
		return r;
	}
	*ret = l;
	return 0;
}

int link_send_bytes(struct link *l, const void *data, size_t size)
{
	int r = tunnel_send(&l->tunnel, data, size);
	if (r == 0 && l->source)
		loop_defer(l->source);
	return r;
}

int link_send(struct link *l, const struct frame *f)
{
	text_clear(&l->bytes);
	frame_encode(&l->bytes, f);
	int r = text_error(&l->bytes);
	return r < 0 ? r : link_send_bytes(l, l->bytes.data, l->bytes.length);
}

bool link_has_opening(const struct link *l)
{
	return l->tunnel.stage > TUNNEL_WAITS_FOR_OPENING;
}

uint64_t link_epoch(const struct link *l)
{
	return l->tunnel.epoch;
}

uint64_t link_slurm_job(const struct link *l)
{
	return l->tunnel.slurm_job;
}

int link_connect(const char *host, uint16_t port, int *ret_fd)
{
	char service[8];
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *list = NULL;
	snprintf(service, sizeof(service), "%u", port);
	int r = getaddrinfo(host, service, &hints, &list);
	if (r != 0)
		return r == EAI_SYSTEM ? -errno : r == EAI_MEMORY ? -ENOMEM : -EHOSTUNREACH;
	r = -EHOSTUNREACH;
	for (const struct addrinfo *a = list; a; a = a->ai_next) {
		int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd < 0) {
			r = -errno;
			continue;
		}
		if (connect(fd, a->ai_addr, a->ai_addrlen) == 0 || errno == EINPROGRESS) {
			*ret_fd = fd;
			r = 0;
			break;
		}
		r = -errno;
		close(fd);
	}
	freeaddrinfo(list);
	return r;
}

int link_connect_to(struct loop *loop, int dir_fd, const char *file, const uint8_t secret[MAC_KEY_SIZE],
	uint64_t slurm_job, const struct link_ops *ops, void *context, struct link **ret)
{
	struct address_file a;
	uint8_t key[MAC_KEY_SIZE];
	int fd, r = address_file_read(dir_fd, file, &a);
	if (r == 0)
		r = link_connect(a.host, a.port, &fd);
	if (r < 0)
		return r;
	address_file_key(&a, secret, key);
	r = link_create(loop, fd, TUNNEL_PILOT, key, slurm_job, ops, context, ret);
	explicit_bzero(key, sizeof(key));
	return r;
}
