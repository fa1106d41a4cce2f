/* SPDX-License-Identifier: MIT */
#include "pool/slot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define PLENTY 64 /* tasks */

int slot_init(struct slot *s, int index, const struct binding *binding)
{
	*s = (struct slot){
		.index = index,
		.gpu = binding->gpu,
		.device = binding->device,
		.seed = binding->seed,
		.socket = -1,
	};
	s->stats.slot = index;
	s->stats.gpu = binding->gpu;
	s->stats.vendor = binding->vendor;
	s->tasks = calloc(RING_DEPTH, sizeof(*s->tasks));
	return s->tasks ? 0 : -ENOMEM;
}

void slot_finish(struct slot *s)
{
	slot_drop_channel(s);
	gd_result_free(s->setup_payload);
	s->setup_payload = NULL;
	free(s->tasks);
	s->tasks = NULL;
}

void slot_drop_channel(struct slot *s)
{
	channel_unmap(&s->channel);
	if (s->socket >= 0)
		close(s->socket);
	s->socket = -1;
}

void slot_begin_life(struct slot *s)
{
	s->state = SLOT_STARTING;
	s->life++;
	s->ordered_ns = clock_now_ns();
	ring_init(&s->in, NULL, NULL, 0);
	s->completed = s->consumed = s->published = 0;
	s->serial = 0;
	s->recall = false;
	s->setup_over = s->cleaned = false;
	s->ending = false;
	s->recycled = false;
	s->broken = NULL;
	s->lost_parcel = false;
	s->setup_words[0] = '\0';
	gd_result_free(s->setup_payload);
	s->setup_payload = NULL;
	s->average_ns = s->last_end_ns = 0;
}

uint64_t slot_begun(const struct slot *s)
{
	uint64_t begun = atomic_load(&s->channel.out->begun);
	if (begun < s->completed)
		return s->completed;
	return begun > s->in.head ? s->in.head : begun;
}

bool slot_cancel(struct slot *s, uint64_t seq)
{
	slot_task(s, seq)->cancelled = true;
	atomic_fetch_add(&s->channel.in->marks, 1);
	atomic_fetch_or(&ring_at(inbox_descs(s->channel.in), seq)->mark, RING_MARK_CANCELLED);
	/* The worker says that it begins before it looks at the mark: one of us sees the other. */
	return slot_begun(s) > seq;
}

void slot_publish(struct slot *s)
{
	s->published = s->in.head;
	atomic_store_explicit(&s->channel.in->head, s->in.head, memory_order_release);
	channel_wake_worker(&s->channel);
}

/* The next task in the table is written: its record, and the worker is told, now or soon. */
static void push(struct slot *s, const void *data)
{
	const struct task *t = slot_task(s, s->in.head);
	bool external = t->place == TASK_PARCEL;
	struct ring_desc *d = ring_take(&s->in, data, external ? 0 : t->size);
	d->kind = RING_TASK;
	d->flags = (uint16_t)((external ? RING_EXTERNAL : 0) | (t->alone ? RING_ALONE : 0));
	d->id = t->id;
	d->size = t->size;
	d->attempt = (uint32_t)t->tries + 1;
	d->code = 0;
	d->start_ns = 0;
	d->limit_ns = (uint64_t)t->timeout_ms * NS_PER_MS;
	s->serial += RING_SERIAL;
	atomic_store_explicit(&d->mark, s->serial, memory_order_release);
	if (slot_in_flight(s) == 1)
		s->stats.since_ns = t->queued_ns;
	/* Published and unanswered: as long as there are any, an answer comes and with it slot_publish(). */
	if (s->published - s->completed < PLENTY || s->in.head - s->published >= PLENTY / 2)
		slot_publish(s);
}

int slot_give_new(struct slot *s, uint64_t id, void *tag, uint64_t queued_ns, int64_t timeout_ms, struct gd_bytes bytes)
{
	void *room = ring_reserve(&s->in, bytes.size);
	if (!room)
		return -EAGAIN;
	if (bytes.size)
		memcpy(room, bytes.data, bytes.size);
	/* Field by field: clearing it first costs more than all of the rest. */
	struct task *t = slot_task(s, s->in.head);
	t->id = id;
	t->tag = tag;
	t->queued_ns = queued_ns;
	t->timeout_ms = timeout_ms;
	t->data = room;
	t->size = bytes.size;
	t->parcel.fd = -1;
	t->tries = 0;
	t->avoid = -1;
	t->announced = false;
	t->doomed = false;
	t->alone = false;
	t->cancelled = false;
	t->hole = false;
	atomic_store_explicit(&t->over, false, memory_order_relaxed);
	t->place = TASK_RING;
	push(s, room);
	return 0;
}

int slot_give(struct slot *s, struct task *t)
{
	void *room = ring_reserve(&s->in, t->place == TASK_PARCEL ? 0 : t->size);
	if (!room)
		return -EAGAIN;
	if (t->place == TASK_PARCEL) {
		int r = parcel_send(&t->parcel, s->socket, false);
		if (r < 0)
			return r == -EPIPE || r == -ECONNRESET ? -EAGAIN
							       : r; /* it is dying: its end will be reported */
	} else {
		if (t->size)
			memcpy(room, t->data, t->size);
		free(t->data);
		t->data = room;
		t->place = TASK_RING;
	}
	*slot_task(s, s->in.head) = *t;
	push(s, room);
	return 0;
}

void slot_give_written(struct slot *s, struct task *t)
{
	t->place = TASK_RING;
	*slot_task(s, s->in.head) = *t;
	push(s, t->data);
}
