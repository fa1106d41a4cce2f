/* SPDX-License-Identifier: MIT */
#include "pool/payload.h"

#include <errno.h>
#include <string.h>

#include "pool/result.h"

static int receive(struct gd_pool *p, struct slot *s, const struct ring_desc *d, struct parcel *ret)
{
	/* After an invalid parcel, it is unknown which records the next parcels belong to. */
	if (s->lost_parcel)
		return -EPROTO;
	int r = parcel_receive(s->socket, d->size, false, ret);
	if (r != -EPROTO && r != -EPIPE)
		return r;
	pthread_mutex_lock(&p->lock);
	s->broken = "it sent a result that is not a sealed memory file of the announced size";
	s->lost_parcel = true;
	pthread_mutex_unlock(&p->lock);
	return -EPROTO;
}

int payload_receive(struct gd_pool *p, struct slot *s, const struct ring_desc *d, struct payload *ret)
{
	*ret = (struct payload){0};
	if (!payload_is_external(d)) {
		ret->bytes = payload_in_place(s, d);
		return 0;
	}
	struct parcel parcel = PARCEL_NONE;
	int r = receive(p, s, d, &parcel);
	if (r >= 0)
		r = result_adopt(&parcel, &ret->result);
	if (r >= 0)
		ret->bytes = gd_result_bytes(ret->result);
	return r;
}

void payload_finish(struct payload *payload)
{
	gd_result_free(payload->result);
	*payload = (struct payload){0};
}

void payload_words(const struct slot *s, const struct ring_desc *d, char words[PAYLOAD_WORDS_MAX])
{
	memcpy(words, outbox_arena(s->channel.out) + d->offset, d->words);
	words[d->words] = '\0';
}
