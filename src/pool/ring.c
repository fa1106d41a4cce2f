/* SPDX-License-Identifier: MIT */
#include "pool/ring.h"

#include <assert.h>
#include <string.h>

void ring_init(struct ring *r, struct ring_desc *descs, void *arena, size_t arena_size)
{
	memset(r, 0, sizeof(*r));
	r->descs = descs;
	r->arena = arena;
	r->arena_size = arena_size;
}

void ring_push(struct ring *r, const void *data, struct ring_desc desc)
{
	assert(!ring_full(r));
	desc.offset = (uint64_t)((const char *)data - r->arena);
	*ring_take(r, data, desc.flags & RING_EXTERNAL ? 0 : desc.size) = desc;
}

void ring_release(struct ring *r, uint64_t tail)
{
	assert(tail >= r->tail && tail <= r->head);
	if (tail == r->tail)
		return;
	r->arena_tail = r->ends[(tail - 1) % RING_DEPTH];
	r->tail = tail;
}

void ring_rewind(struct ring *r, uint64_t head)
{
	assert(head >= r->tail && head <= r->head);
	r->head = head;
	if (head == r->tail)
		r->arena_head = r->arena_tail = 0;
	else
		r->arena_head = r->ends[(head - 1) % RING_DEPTH];
}

uint64_t ring_take_back(const struct ring *r, uint64_t lowest, struct ring_words words)
{
	uint64_t old = r->head;
	uint64_t begun = atomic_load_explicit(words.begun, memory_order_relaxed);
	if (begun > lowest)
		lowest = begun;
	if (lowest >= old)
		return old;
	atomic_store(words.head, lowest);
	atomic_fetch_add(words.round, 1);
	begun = atomic_load(words.begun);
	if (begun < lowest)
		begun = lowest;
	if (begun > old)
		begun = old;
	if (begun > lowest)
		atomic_store(words.head, begun);
	return begun;
}
