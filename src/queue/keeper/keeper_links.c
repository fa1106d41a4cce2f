/* SPDX-License-Identifier: MIT */
#include "queue/keeper/keeper_links.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/file.h"

/* Bytes read at once: an order with its payload is usually smaller. */
#define READ_BYTES 16384
/* A command may have 10 MiB, and its job is also sent as JSON. */
#define MAX_PAYLOAD ((uint64_t)256 << 20)

void keeper_link_close(struct keeper_link *l)
{
	closep(&l->fd);
	text_finish(&l->in);
	*l = KEEPER_LINK_NONE;
}

bool keeper_link_receive(struct keeper_link *l)
{
	char buf[READ_BYTES];
	ssize_t n;
	do {
		n = recv(l->fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n > 0)
			text_append(&l->in, buf, (size_t)n);
	} while (n == READ_BYTES || (n < 0 && errno == EINTR));
	/* An order that does not fit into memory is lost: the runner sees that the link closes. */
	return !text_error(&l->in) && (n > 0 || (n < 0 && errno == EAGAIN));
}

/* The fixed part of the next order; false: it is incomplete. */
static bool read_head(struct keeper_link *l, struct keeper_order *ret, size_t *ret_total)
{
	struct keeper_order o = {0};
	size_t have = l->in.length - l->done;
	const char *p = l->in.data + l->done;
	if (l->fd < 0 || text_error(&l->in) || have < KEEPER_MESSAGE_MIN)
		return false;
	memcpy(&o.bytes, p, sizeof(o.bytes));
	bool sane = o.bytes >= KEEPER_MESSAGE_MIN && o.bytes <= KEEPER_MESSAGE_MAX;
	if (sane && have >= o.bytes) {
		memcpy(&o, p, o.bytes < sizeof(o) ? o.bytes : sizeof(o));
		sane = o.size <= MAX_PAYLOAD;
	}
	if (!sane)
		keeper_link_close(l);
	if (!sane || have < o.bytes || have - o.bytes < o.size)
		return false;
	*ret_total = o.bytes + o.size;
	*ret = o;
	return true;
}

uint32_t keeper_link_peek(struct keeper_link *l)
{
	struct keeper_order o;
	size_t total;
	return read_head(l, &o, &total) ? o.kind : 0;
}

int keeper_link_take(struct keeper_link *l, struct keeper_order *ret, char **ret_payload)
{
	size_t total;
	if (!read_head(l, ret, &total))
		return -EAGAIN;
	*ret_payload = ret->size ? malloc(ret->size) : NULL;
	if (*ret_payload)
		memcpy(*ret_payload, l->in.data + l->done + ret->bytes, ret->size);
	l->done += total;
	if (l->done == l->in.length) {
		/* Do not keep the memory of a large payload. */
		if (l->in.room > 4 * READ_BYTES)
			text_finish(&l->in);
		text_clear(&l->in);
		l->done = 0;
	}
	return ret->size && !*ret_payload ? -ENOMEM : 0;
}

bool keeper_link_send(struct keeper_link *l, const struct keeper_note *notes, size_t count)
{
	return l->fd >= 0 && file_write_all(l->fd, notes, count * sizeof(*notes)) == 0;
}
