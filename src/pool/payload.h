/* SPDX-License-Identifier: MIT */
/*
 * The payload of a worker's record: a human-readable message, and bytes. They are in the outbox, where the worker may
 * change them at any time, or the bytes are a parcel, which cannot change.
 *
 * payload_check() checks a record before any other use of it. Each parcel is received from the socket exactly once, in
 * the order of the records.
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
		return "it sent a message that is too long";
	size_t words = ring_aligned(d->words);
	if (d->offset > CHANNEL_ARENA || words > CHANNEL_ARENA - d->offset)
		return "it sent a result that lies outside its memory";
	if (!payload_is_external(d) && d->size > CHANNEL_ARENA - d->offset - words)
		return "it sent a result that lies outside its memory";
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
 * Returns the bytes, from the outbox or a parcel. -EPROTO: the worker did not send what it announced, and can no longer
 * be trusted. Other errors are caused by this process (descriptors, memory). On failure there are no bytes.
 */
int payload_receive(struct gd_pool *p, struct slot *s, const struct ring_desc *d, struct payload *ret);
void payload_finish(struct payload *payload);

/* Copies the message; "" if there is none. */
void payload_words(const struct slot *s, const struct ring_desc *d, char words[PAYLOAD_WORDS_MAX]);

#endif
