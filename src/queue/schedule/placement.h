/* SPDX-License-Identifier: MIT */
/*
 * Which GPUs a job gets, or for each GPU why not.
 *
 * Among those with room the one with the most free memory; ties go to the lower
 * position. A job never gets the same GPU twice, nor GPUs of two vendors; one
 * that wants several gets no MIG instances, for CUDA opens only one of them.
 *
 * Nobody is starved: in each pass over the waiting jobs the first one that does
 * not fit reserves the GPUs it will have, and those behind it start elsewhere.
 * With the order of queue/schedule/pending.h a pass is
 *
 *     pending_rewind(p); placement_rewind(&reservation);
 *     while ((job = pending_peek(p))) {
 *             r = placement_choose(&ledger, id, need, &reservation, gpus, NULL);
 *             if (r == 0) → start it, ledger_add(), pending_remove(p, job)
 *             else → if r == -EAGAIN and nothing is reserved in this pass
 *                    (!reservation.active), placement_reserve();
 *                    pending_skip(p, placement_beyond(…))
 *     }
 *
 * Pure, as the ledger.
 */
#ifndef QUEUE_SCHEDULE_PLACEMENT_H
#define QUEUE_SCHEDULE_PLACEMENT_H

#include "base/text.h"
#include "queue/schedule/ledger.h"

struct placement_need {
	uint64_t memory_bytes; /* on each GPU; of an undeclared job min_free_mem */
	bool declared;
	unsigned num_gpus; /* 0: never waits */
};

enum placement_reason {
	PLACEMENT_FITS,
	PLACEMENT_MEMORY,         /* not enough now */
	PLACEMENT_TOO_SMALL,      /* never enough */
	PLACEMENT_MEMORY_UNKNOWN, /* the driver says nothing: one job at a time */
	PLACEMENT_JOBS,           /* jobs_per_gpu reached */
	PLACEMENT_UNSETTLED,      /* another undeclared job's memory still grows */
	PLACEMENT_EXCLUSIVE,      /* exclusive compute mode, and in use */
	PLACEMENT_RESERVED,       /* for a job before this one */
	PLACEMENT_QUARANTINED,
	PLACEMENT_UNHEALTHY, /* lost, not answering, unreadable: the GPU's health says */
	PLACEMENT_SPLIT,     /* the card is split: its MIG instances take jobs */
	PLACEMENT_MIG,       /* an instance, and the job wants several GPUs */
	PLACEMENT_VENDOR,    /* room, but not enough GPUs of its vendor */
};

/* What one GPU answers to one need. Figures beyond it are in the ledger's account. */
struct placement_verdict {
	enum placement_reason reason;
	uint64_t job; /* PLACEMENT_RESERVED: for whom; PLACEMENT_UNSETTLED: whose, if ours */
};

/* GPUs kept for one waiting job. Start from {0}, keep it from pass to pass: so it keeps those that are draining. */
struct placement_reservation {
	bool active;  /* in this pass */
	uint64_t job; /* whose they are, or were in the last pass */
	size_t num_gpus, capacity;
	int *gpus; /* positions */
};

void placement_reservation_finish(struct placement_reservation *r);

/*
 * Chooses need->num_gpus GPUs into ret_gpus: 0; -EAGAIN: not now; -ENODEV: never
 * with these GPUs (too small, too few, lost). `job` is who asks: its own
 * reservation does not hinder it. `reservation` and `verdicts` (one per GPU,
 * always filled) may be NULL.
 */
int placement_choose(const struct ledger *l, uint64_t job, const struct placement_need *need,
	const struct placement_reservation *reservation, int *ret_gpus, struct placement_verdict *verdicts);

/*
 * Keeps GPUs for a job for which placement_choose() said -EAGAIN: first those
 * where it fits, then those it had already, then those where the least has to
 * end. GPUs which only somebody else can free are not kept; where too few are
 * left without them nothing is, and `active` stays false. 0 or -ENOMEM.
 */
int placement_reserve(
	struct placement_reservation *r, const struct ledger *l, uint64_t job, const struct placement_need *need);

/*
 * From how much memory on jobs that are else like this one, which was refused just now,
 * need not be asked in this pass: its own need; less, once something is reserved, for
 * then only what fits matters.
 */
uint64_t placement_beyond(
	const struct ledger *l, const struct placement_need *need, const struct placement_reservation *r);

/* A pass begins: nothing is reserved for those who come first. */
void placement_rewind(struct placement_reservation *r);

/* Writes "alice, python" for a PID into buf, or returns false. */
typedef bool placement_describe(void *context, int64_t pid, char *buf, size_t size);

/*
 * One line without its end, for `gpuq why`: "GPU 1: needs 12.0 GB, 9.1 GB free;
 * 20.3 GB held by pid 4711 (alice, python)". `describe` may be NULL.
 */
void placement_words(struct text *t, const struct ledger *l, size_t gpu, const struct placement_need *need,
	const struct placement_verdict *verdict, placement_describe *describe, void *context);

#endif
