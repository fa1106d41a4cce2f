/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/cleanup.h"
#include "pool/interrupt.h"
#include "pool/worker_private.h"

static struct ring_desc message_record(const struct gd_worker *w, size_t size)
{
	/* In a batch the message belongs to no single task. */
	const struct item *item = w->in_hand && !w->ops->process_batch ? &w->items[0] : NULL;
	return (struct ring_desc){
		.kind = RING_MESSAGE,
		.id = item ? item->desc.id : RING_NO_TASK,
		.attempt = item ? item->desc.attempt : 0,
		.start_ns = item ? item->desc.start_ns : 0,
		.end_ns = clock_now_ns(),
		.size = size,
	};
}

/*
 * Sends the message as a parcel: only its record is in the ring. There is at most one such message at a time, so that
 * messages take bounded memory while callbacks are slow. `reserved`: a result that waits for its own record. The record
 * of the message comes before it, takes no space in the arena, and leaves a place in the ring for it.
 */
static int send_parcel(struct gd_worker *w, void *reserved, const void *data, size_t size)
{
	cleanup_(parcel_finish) struct parcel parcel = PARCEL_NONE;
	int r = size > 0 ? parcel_fill(data, size, &parcel) : 0;
	if (r < 0)
		return r;
	struct ring_desc desc = message_record(w, size);
	worker_wait_for_places(w, size > 0 ? w->parcels_until : 0, reserved ? 2 : 1);
	if (size > 0) {
		r = worker_send_parcel(w, &parcel);
		if (r < 0)
			return r;
		desc.flags = RING_EXTERNAL;
	}
	worker_publish(w, reserved ? reserved : worker_room(w, 0), 0, desc);
	if (size > 0)
		w->parcels_until = w->out.head;
	return 0;
}

static int send_message(struct gd_worker *w, const void *data, size_t size)
{
	void *reserved = worker_result_room(w);
	if (reserved || size > CHANNEL_IN_PLACE)
		return send_parcel(w, reserved, data, size);
	struct ring_desc desc = message_record(w, size);
	void *room = worker_room(w, size);
	if (size > 0)
		memcpy(room, data, size);
	worker_publish(w, room, size, desc);
	return 0;
}

int gd_worker_send(struct gd_worker *w, const void *data, size_t size)
{
	interrupt_defer(w);
	int r = send_message(w, data, size);
	interrupt_resume(w);
	return r;
}
