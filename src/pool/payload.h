/* SPDX-License-Identifier: MIT */
/*
 * The payload of a worker's record: a message for people, and bytes. They lie in
 * the outbox, where the worker may change them at any time, or the bytes are a
 * parcel, which cannot change.
 *
 * payload_check() checks a record before anything else of it is used. Each
 * parcel is taken off the socket exactly once, in the order of the records.
 */
#ifndef POOL_PAYLOAD_H
#define POOL_PAYLOAD_H

#include "pool/pool_private.h"

#define PAYLOAD_WORDS_MAX 1024 /* with the NUL */

struct payload {
	struct gd_bytes bytes;
	struct gd_result *result; /* whose bytes they are; NULL: they are in the outbox */
};

static inline bool payload_is_external(const struct ring_desc *d)
{
	return d->flags & RING_EXTERNAL;
}

/* NULL if it lies in the worker's memory; otherwise what is wrong. */
static inline const char *payload_check(const struct ring_desc *d)
{
	if (d->words >= PAYLOAD_WORDS_MAX)
		return "a message that is too long";
	size_t words = ring_aligned(d->words);
	if (d->offset > CHANNEL_ARENA || words > CHANNEL_ARENA - d->offset)
		return "a result that lies outside of its memory";
	if (!payload_is_external(d) && d->size > CHANNEL_ARENA - d->offset - words)
		return "a result that lies outside of its memory";
	return NULL;
}

/* Bytes that are not external. */
static inline struct gd_bytes payload_in_place(const struct slot *s, const struct ring_desc *d)
{
	return (struct gd_bytes){
		.data = outbox_arena(s->channel.out) + d->offset + ring_aligned(d->words),
		.size = d->size,
	};
}

/*
 * The bytes, wherever they are. -EPROTO: the worker did not send what it announced; it
 * is broken from now on. Other errors are this process's own (descriptors, memory). On
 * failure there are no bytes.
 */
int payload_receive(struct gd_pool *p, struct slot *s, const struct ring_desc *d, struct payload *ret);
void payload_finish(struct payload *payload);

/* Copies the message; "" if there is none. */
void payload_words(const struct slot *s, const struct ring_desc *d, char words[PAYLOAD_WORDS_MAX]);

#endif
