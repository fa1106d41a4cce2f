/* SPDX-License-Identifier: MIT */
/*
 * One direction of a worker's channel: descriptors in a ring, payloads in an arena next to them, one producer, one
 * consumer, in memory that both map.
 *
 * Only the producer writes descriptors, arena and head. The consumer's position is returned through the memory of the
 * other direction, or by the results themselves, and passed to the producer with ring_release(). So the producer
 * depends on nothing that the consumer can write, and the consumer checks everything that it reads.
 *
 * head counts records. The producer may *lower* it to take back records that the consumer has not begun: see
 * ring_take_back().
 */
#ifndef POOL_RING_H
#define POOL_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RING_LINE  64
#define RING_DEPTH 1024u /* records; a power of two */

enum ring_kind {
	RING_TASK = 1,
	RING_READY,        /* setup is done; attempt: how many tasks it takes at once */
	RING_STARTED,      /* a task begins; only if asked for */
	RING_DONE,         /* a task ended; code: how; the payload is its result or belongs to the failure */
	RING_SETUP_FAILED, /* the payload belongs to the failure */
	RING_CLEANUP_FAILED,
	RING_CLEANED, /* cleanup is over: the worker leaves by itself */
	RING_MESSAGE, /* of gd_worker_send(); id: the task that is being processed, or RING_NO_TASK */
};

/* Flags of a record. */
#define RING_EXTERNAL 1u /* the payload is a memfd that came by the socket */
#define RING_ALONE    2u /* a task that is not batched with others */
#define RING_SKIPPED  4u /* an answer: the task was cancelled before it began */

/*
 * Marks of a task, in the low bits of its record's `mark`. They may be set while the
 * worker has the task. The bits above are a serial number of the record: setting a mark with compare-and-exchange marks
 * this task, and not a later one in its place.
 */
#define RING_MARK_TIMED_OUT UINT64_C(1)
#define RING_MARK_SHARED    UINT64_C(2) /* … together with other tasks of its batch */
#define RING_MARK_CANCELLED UINT64_C(4)
#define RING_MARKS          (RING_MARK_TIMED_OUT | RING_MARK_SHARED | RING_MARK_CANCELLED)
#define RING_SERIAL         UINT64_C(8) /* the unit of the serial number */

#define RING_NO_TASK UINT64_MAX

/*
 * Failures have a message for people: `words` bytes at `offset`. The payload follows, at the next cache line.
 */
struct ring_desc {
	uint64_t id;
	uint64_t offset; /* in the arena */
	uint64_t size;   /* of the payload */
	uint64_t start_ns;
	union {
		uint64_t end_ns;
		uint64_t limit_ns; /* of a task: its time limit; 0: none */
	};
	int32_t code;
	uint16_t kind;
	uint16_t flags;
	uint32_t attempt;
	uint32_t words;
	_Atomic uint64_t mark; /* of a task: serial number and marks */
};
_Static_assert(sizeof(struct ring_desc) == RING_LINE, "a descriptor is a cache line");

/* The producer's private side. */
struct ring {
	struct ring_desc *descs; /* RING_DEPTH of them, shared */
	char *arena;             /* shared */
	size_t arena_size;
	uint64_t head; /* records written; published by the owner of the head word */
	uint64_t tail; /* records released */
	size_t arena_head;
	size_t arena_tail;
	size_t ends[RING_DEPTH]; /* where each record's payload ends in the arena */
};

void ring_init(struct ring *r, struct ring_desc *descs, void *arena, size_t arena_size);

static inline bool ring_full(const struct ring *r)
{
	return r->head - r->tail >= RING_DEPTH;
}

static inline size_t ring_aligned(size_t size)
{
	return (size + RING_LINE - 1) & ~(size_t)(RING_LINE - 1);
}

/*
 * Finds space for a record with `size` bytes of payload; ring_push() then takes it. Returns NULL if there is no space
 * now; a payload of at most arena_size always fits into an empty ring.
 */
static inline void *ring_reserve(const struct ring *r, size_t size)
{
	if (size > r->arena_size || ring_full(r))
		return NULL;
	size_t need = ring_aligned(size);
	/* An empty ring starts over at the beginning, where the memory is cached. */
	if (r->head == r->tail)
		return need <= r->arena_size ? r->arena : NULL;
	if (r->arena_head >= r->arena_tail) {
		if (r->arena_size - r->arena_head >= need)
			return r->arena + r->arena_head;
		return r->arena_tail > need ? r->arena : NULL;
	}
	/* Strictly more: equal ends would mean empty. */
	return r->arena_tail - r->arena_head > need ? r->arena + r->arena_head : NULL;
}

/*
 * Takes the room at `data` (from ring_reserve()) with `size` bytes of payload and
 * returns its descriptor, with offset and size filled in and the rest as it was
 * before: the caller sets every other field, one by one (clearing the descriptor first would cost more). The caller
 * publishes r->head.
 */
static inline struct ring_desc *ring_take(struct ring *r, const void *data, size_t size)
{
	size_t start = (size_t)((const char *)data - r->arena);
	if (r->head == r->tail)
		r->arena_tail = start;
	r->arena_head = start + ring_aligned(size);
	r->ends[r->head % RING_DEPTH] = r->arena_head;
	struct ring_desc *d = &r->descs[r->head++ % RING_DEPTH];
	d->offset = start;
	d->size = size;
	return d;
}

/* The same with the whole descriptor; its offset is filled in. External payloads take no space in the arena. */
void ring_push(struct ring *r, const void *data, struct ring_desc desc);

/* Allows all records before `tail` to be overwritten. */
void ring_release(struct ring *r, uint64_t tail);

/* Forgets the records from `head` on. */
void ring_rewind(struct ring *r, uint64_t head);

static inline struct ring_desc *ring_at(struct ring_desc *descs, uint64_t seq)
{
	return &descs[seq % RING_DEPTH];
}

/*
 * Takes back records that the consumer has not begun. The consumer remembers a head and the round it belongs to. It
 * announces how many records it has begun *before* it reads the round again; if the round has changed, it withdraws the
 * count and reads head again. The producer lowers head and increments the round *before* it reads `begun`. Both happen
 * in one total order, so a record is either seen as begun here or not begun there. (The round changes rarely, so
 * reading it costs the consumer nothing; head changes all the time.)
 *
 * Returns the new head, at least `lowest`: records from there to r->head belong to the producer again. `begun` is
 * written by the consumer, so it is bounded.
 */
struct ring_words {
	_Atomic uint64_t *head;
	_Atomic uint64_t *round;
	const _Atomic uint64_t *begun;
};

uint64_t ring_take_back(const struct ring *r, uint64_t lowest, struct ring_words words);

/*
 * The consumer's half: announces that it has begun the records before `until`. False if some were taken back since it
 * read round_seen; then it must withdraw `begun`. The fence also orders other words: if, after this call, the
 * consumer does not see what the producer stored before a fence of its own, then the producer sees, after that fence,
 * everything that the consumer stored before this call.
 */
static inline bool ring_begin(
	_Atomic uint64_t *begun, uint64_t until, const _Atomic uint64_t *round, uint64_t round_seen)
{
	atomic_store_explicit(begun, until, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(round, memory_order_acquire) == round_seen;
}

#endif
