/* SPDX-License-Identifier: MIT */
#include "slurm/node_keeper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/loop.h"
#include "queue/keeper/nursery.h"

static int flush(struct node_keeper *k)
{
	while (k->out_done < k->out.length) {
		ssize_t n = send(
			k->fd, k->out.data + k->out_done, k->out.length - k->out_done, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EAGAIN)
			return loop_change(k->source, EPOLLIN | EPOLLOUT);
		if (n < 0 && errno != EINTR)
			return -errno;
		k->out_done += n > 0 ? (size_t)n : 0;
	}
	text_clear(&k->out);
	k->out_done = 0;
	return loop_change(k->source, EPOLLIN);
}

/* False: the received bytes are not a note. */
static bool take_notes(struct node_keeper *k)
{
	size_t done = 0;
	for (;;) {
		struct keeper_note note = {0};
		uint32_t bytes = 0;
		if (k->in_bytes - done >= sizeof(bytes))
			memcpy(&bytes, k->in + done, sizeof(bytes));
		if (bytes && (bytes < KEEPER_MESSAGE_MIN || bytes > sizeof(k->in)))
			return false;
		if (!bytes || k->in_bytes - done < bytes)
			break;
		memcpy(&note, k->in + done, bytes < sizeof(note) ? bytes : sizeof(note));
		done += bytes;
		k->ops->note(k->context, k, &note);
	}
	memmove(k->in, k->in + done, k->in_bytes - done);
	k->in_bytes -= done;
	return true;
}

static bool receive(struct node_keeper *k)
{
	ssize_t n = recv(k->fd, k->in + k->in_bytes, sizeof(k->in) - k->in_bytes, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0)
		return false;
	k->in_bytes += (size_t)n;
	return take_notes(k);
}

static void on_socket(void *context, uint32_t events)
{
	struct node_keeper *k = context;
	if (events & EPOLLOUT)
		(void)flush(k);
	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)) || receive(k))
		return;
	k->ops->gone(k->context, k);
	node_keeper_destroy(k);
}

int node_keeper_create(struct loop *l, int nursery_fd, const struct node_keeper_ops *ops, void *context,
	struct node_keeper **list, struct node_keeper **ret)
{
	struct node_keeper *k = calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	k->fd = -1;
	k->ops = ops;
	k->context = context;
	int r = nursery_add_keeper(nursery_fd, &k->fd);
	if (r == 0)
		r = loop_add(l, k->fd, EPOLLIN, on_socket, k, &k->source);
	if (r < 0) {
		closep(&k->fd);
		free(k);
		return r;
	}
	k->list = list;
	k->next = *list;
	*list = k;
	*ret = k;
	return 0;
}

void node_keeper_destroy(struct node_keeper *k)
{
	for (struct node_keeper **p = k->list; *p; p = &(*p)->next)
		if (*p == k) {
			*p = k->next;
			break;
		}
	loop_remove(k->source);
	close(k->fd);
	text_finish(&k->out);
	free(k);
}

int node_keeper_send(struct node_keeper *k, const struct keeper_order *order, const void *payload)
{
	struct keeper_order o = *order;
	size_t before = k->out.length;
	o.bytes = sizeof(o);
	text_append(&k->out, &o, sizeof(o));
	if (o.size)
		text_append(&k->out, payload, o.size);
	if (text_error(&k->out)) {
		k->out.length = before;
		k->out.error = 0;
		return -ENOMEM;
	}
	(void)flush(k); /* if it is gone, its socket closes */
	return 0;
}
