/* SPDX-License-Identifier: MIT */
/*
 * The memory that the pool's owner (the process that opened it) shares with one worker: two memfds, sealed against
 * resizing, created again for every worker process.
 *
 * The inbox is written by us (the owner and its warden) and mapped read-only in the worker: tasks, how many results
 * were consumed, which side sleeps, which tasks are cancelled or out of time. The outbox is written by the worker and
 * mapped read-only by us: results, which tasks it has begun, whether it sleeps. So a worker that corrupts its memory
 * can damage only its own answers. All data that is read from the outbox is checked.
 *
 * Mappings are not inherited by fork (MADV_DONTFORK): a worker has its own two and no other worker's.
 */
#ifndef POOL_CHANNEL_H
#define POOL_CHANNEL_H

#include "pool/ring.h"

#define CHANNEL_ARENA    ((size_t)4 << 20)
#define CHANNEL_IN_PLACE (CHANNEL_ARENA / 2) /* larger payloads are sent as separate memfds */
#define CHANNEL_BRIEF    256                 /* bytes for the brief of a worker */

/* Which hooks of a worker can be interrupted: those of tasks (it has an on_cancel), setup (an on_setup_cancel). */
#define CHANNEL_INTERRUPT_TASKS 1
#define CHANNEL_INTERRUPT_SETUP 2

/* Whether and why a setup must give up. */
enum setup_ending {
	SETUP_GOES_ON,
	SETUP_CANCELLED, /* the pool is ending */
	SETUP_TIMED_OUT,
};

struct inbox {
	_Alignas(RING_LINE) _Atomic uint64_t head;     /* tasks published; may be lowered */
	_Alignas(RING_LINE) _Atomic uint64_t consumed; /* records of the outbox that we have consumed */
	_Atomic uint64_t completed;                 /* tasks whose answers are among them; stored before `consumed` */
	_Alignas(RING_LINE) _Atomic uint32_t wake;  /* futex: the worker sleeps on it */
	_Atomic uint32_t closing;                   /* no more tasks: clean up and leave */
	_Alignas(RING_LINE) _Atomic uint64_t armed; /* not 0: we sleep; a new number each time */
	_Atomic uint64_t waits;                     /* how often we have begun to wait for answers, asleep or not */
	_Alignas(RING_LINE) _Atomic uint64_t round; /* counts how often tasks were taken back */
	_Atomic uint64_t marks;                     /* how many marks were set on tasks; stored before them */
	_Atomic uint32_t ending;                    /* for setup: enum setup_ending */
	_Atomic uint32_t ready;                     /* the owner has read that setup is done */
	_Alignas(RING_LINE) char brief[CHANNEL_BRIEF];
};

struct outbox {
	_Alignas(RING_LINE) _Atomic uint64_t head;  /* records published */
	_Alignas(RING_LINE) _Atomic uint64_t begun; /* tasks begun */
	_Atomic uint64_t begun_ns;                  /* when the last of them began, for exact timeouts */
	_Atomic uint64_t ended;                     /* tasks whose record is published */
	_Atomic uint64_t wanted;            /* bytes of arena that it waits for, plus one; 0: it does not wait */
	_Atomic uint32_t interruptible;     /* CHANNEL_INTERRUPT…: the hooks that SIGURG can interrupt */
	_Atomic uint32_t setup_interrupted; /* on_setup_cancel was called */
	_Atomic uint64_t interrupted;       /* tasks before this one have had their on_cancel */
	_Alignas(RING_LINE) _Atomic uint32_t sleeping; /* 0, or the number of this sleep */
	_Atomic uint32_t napping;                      /* 1: it sleeps for a little while, see channel_nap() */
	/* Written by the crash handler, for the message. */
	_Alignas(RING_LINE) _Atomic uint32_t crash_signal;
	_Atomic uint64_t crash_address;
	_Atomic uint32_t entered; /* an executed program has called gd_worker_main() */
};

#define CHANNEL_DESCS(head_size) (((head_size) + 4095) & ~(size_t)4095)
#define INBOX_SIZE               (CHANNEL_DESCS(sizeof(struct inbox)) + RING_DEPTH * sizeof(struct ring_desc) + CHANNEL_ARENA)
#define OUTBOX_SIZE              (CHANNEL_DESCS(sizeof(struct outbox)) + RING_DEPTH * sizeof(struct ring_desc) + CHANNEL_ARENA)

/* One side's view. */
struct channel {
	struct inbox *in;
	struct outbox *out;
	uint32_t sleep;         /* the worker's: number of its last sleep */
	unsigned looks;         /* … and how long to spin before the next one */
	_Atomic uint32_t woken; /* ours: number of the last sleep that we have ended */
};

static inline struct ring_desc *inbox_descs(const struct inbox *in)
{
	return (struct ring_desc *)((char *)in + CHANNEL_DESCS(sizeof(struct inbox)));
}

static inline char *inbox_arena(const struct inbox *in)
{
	return (char *)(inbox_descs(in) + RING_DEPTH);
}

/* The marks of a task that the worker has: RING_MARK_*. Reads the record only if any task was ever marked. */
static inline uint64_t inbox_mark(const struct inbox *in, uint64_t seq)
{
	if (atomic_load_explicit(&in->marks, memory_order_acquire) == 0)
		return 0;
	return atomic_load_explicit(&ring_at(inbox_descs(in), seq)->mark, memory_order_acquire) & RING_MARKS;
}

static inline struct ring_desc *outbox_descs(const struct outbox *out)
{
	return (struct ring_desc *)((char *)out + CHANNEL_DESCS(sizeof(struct outbox)));
}

static inline char *outbox_arena(const struct outbox *out)
{
	return (char *)(outbox_descs(out) + RING_DEPTH);
}

/* The two memfds, of their full size, sealed. */
int channel_create(int *ret_in_fd, int *ret_out_fd);

/* Maps both: `ours` for owner and warden (inbox writable), else for the worker (outbox writable). */
int channel_map(struct channel *c, int in_fd, int out_fd, bool ours);
void channel_unmap(struct channel *c);

/* By a program that is executed as a worker: notes in its outbox that it has called gd_worker_main(). */
void channel_note_entry(int out_fd);

/* Wakes the worker if it sleeps. Call it after storing what the worker waits for. */
void channel_wake_worker(struct channel *c);

/*
 * The same in two steps. If the returned word is not NULL, the worker sleeps, and the caller must pass the word to
 * channel_wake(). That is a system call, so it is made without locks; the channel may be unmapped by then.
 */
const _Atomic uint32_t *channel_claim_wake(struct channel *c);
void channel_wake(const _Atomic uint32_t *claimed);

/*
 * The worker announces that it is about to sleep, then checks once more for what it waits for; channel_wake_worker()
 * stores first and then checks for this announcement. A fence orders the store and the later load. Sequentially
 * consistent operations without a fence would not be enough: emulators of other processors get their order wrong.
 */
static inline void channel_announce_sleep(struct channel *c)
{
	c->sleep = c->sleep == UINT32_MAX ? 1 : c->sleep + 1;
	atomic_store_explicit(&c->out->sleeping, c->sleep, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
}

/*
 * Spins for a while until `ready` is true, before the caller sleeps: a wake-up costs more. The time adapts, up to some
 * ten microseconds: longer if spinning has succeeded lately, shorter if not. *looks keeps the state.
 */
bool channel_look(unsigned *looks, bool (*ready)(void *context), void *context);

/*
 * The worker sleeps for nap_ns, or until we wait: new tasks do not wake it. `waits`: what inbox.waits was
 * when the worker decided to do so. False: we have begun to wait.
 */
bool channel_nap(struct channel *c, long nap_ns, uint64_t waits);

/* Announces that we wait for answers, and ends a nap. */
void channel_note_wait(struct channel *c);

/* The worker sleeps until woken or until `ready` is true; it spins for a moment first. */
void channel_sleep(struct channel *c, bool (*ready)(void *context), void *context);

#endif
