/* SPDX-License-Identifier: MIT */
#include "pool/slot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

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
	if (s->state != SLOT_STARTING || !s->starting_ns)
		s->starting_ns = clock_now_ns();
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
	/* The worker publishes `begun` before it reads the mark: one side sees the other. */
	return slot_begun(s) > seq;
}

const _Atomic uint32_t *slot_show(struct slot *s)
{
	s->published = s->in.head;
	atomic_store_explicit(&s->channel.in->head, s->in.head, memory_order_release);
	return channel_claim_wake(&s->channel);
}

void slot_publish(struct slot *s)
{
	channel_wake(slot_show(s));
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
							       : r; /* the worker is dying: its end will be reported */
	} else {
		if (t->size)
			memcpy(room, t->data, t->size);
		free(t->data);
		t->data = room;
		t->place = TASK_RING;
	}
	struct task *given = slot_task(s, s->in.head);
	*given = *t;
	channel_wake(slot_push(s, given, room));
	return 0;
}

void slot_give_written(struct slot *s, struct task *t)
{
	t->place = TASK_RING;
	struct task *given = slot_task(s, s->in.head);
	*given = *t;
	channel_wake(slot_push(s, given, t->data));
}
