/* SPDX-License-Identifier: MIT */
/*
 * Which GPUs a job gets, or for each GPU why not.
 *
 * Among those with room the one with the most free memory; ties go to the lower
 * position. A job on several GPUs gets those that are linked or on one NUMA node (topology.h). A job never gets the
 * same GPU twice, nor GPUs of two vendors; one that wants several gets no MIG instances, for CUDA opens only one of
 * them.
 *
 * Nobody is starved: in each pass over the waiting jobs (scheduler.c) the first one that does
 * not fit reserves the GPUs it will have, and those behind it start elsewhere. The first one that waits
 * for main memory or CPUs reserves these in the same way.
 *
 * In a cluster each GPU belongs to a node. A job gets GPUs of one node, which has to have the main memory and the CPUs,
 * and time until the job is over. Whether GPUs of the cluster could *ever* take a job is not asked: nodes come and go.
 *
 * Pure, as the ledger.
 */
#ifndef QUEUE_SCHEDULE_PLACEMENT_H
#define QUEUE_SCHEDULE_PLACEMENT_H

#include "base/text.h"
#include "queue/schedule/ledger.h"

struct placement_need {
	uint64_t memory_bytes; /* on each GPU */
	bool declared;         /* with --mem; the other jobs that share wait until memory has settled */
	bool alone;            /* gets GPUs with none of our jobs on them, and nothing is put next to it */
	bool by_card;          /* the default threshold, see ledger_bytes_on() */
	unsigned num_gpus;     /* 0: never waits for a GPU */
	unsigned cpus;         /* 0: not declared */
	uint64_t host_bytes;   /* main memory; 0: not declared */
	const char *pin;       /* see gpu_pin.h; NULL: any GPU */
	/*
	 * In a cluster: how long the job takes, rounded up by an eighth at most, so that a long job does not stand for
	 * shorter ones; 0: not known.
	 */
	int64_t time_ms;
	int64_t over_ms; /* in a cluster: when it is over if it starts now; 0: not known. Of one job, not of a class */
};

enum placement_reason {
	PLACEMENT_FITS,
	PLACEMENT_MEMORY,         /* not enough now */
	PLACEMENT_TOO_SMALL,      /* never enough */
	PLACEMENT_MEMORY_UNKNOWN, /* the driver says nothing: one job at a time */
	PLACEMENT_JOBS,           /* jobs_per_gpu reached */
	PLACEMENT_UNSETTLED,      /* another undeclared job's memory still grows */
	PLACEMENT_OCCUPIED,       /* the job shares its GPU with no other, and there is one */
	PLACEMENT_TAKEN,          /* a job there shares its GPU with no other */
	PLACEMENT_EXCLUSIVE,      /* exclusive compute mode, and in use */
	PLACEMENT_RESERVED,       /* for a job before this one */
	PLACEMENT_QUARANTINED,
	PLACEMENT_UNHEALTHY, /* lost, not answering, unreadable: the GPU's health says */
	PLACEMENT_SPLIT,     /* the card is split: its MIG instances take jobs */
	PLACEMENT_MIG,       /* an instance, and the job wants several GPUs */
	PLACEMENT_PINNED,    /* the job is pinned to other GPUs */
	PLACEMENT_VENDOR,    /* room, but not enough GPUs of its vendor */
	PLACEMENT_APART,     /* room, but not enough GPUs on its node */
	PLACEMENT_NODE_AWAY, /* the node takes no job now */
	PLACEMENT_NODE_TIME, /* the node ends before the job would be over */
	PLACEMENT_NODE_HOST, /* the node has not the main memory or the CPUs */
};

/* "fits", "memory"… */
const char *placement_reason_name(enum placement_reason reason);

/* What the machine answers, beside its GPUs. */
enum placement_host {
	PLACEMENT_HOST_FITS,
	PLACEMENT_HOST_MEMORY,
	PLACEMENT_HOST_CPUS,
	PLACEMENT_HOST_RESERVED,  /* what is left is kept for a job before this one */
	PLACEMENT_HOST_TOO_SMALL, /* the machine never has so much */
};

/* What one GPU answers to one need. Figures beyond it are in the ledger's account. */
struct placement_verdict {
	enum placement_reason reason;
	/* PLACEMENT_RESERVED: for whom; UNSETTLED: whose, if ours; OCCUPIED, TAKEN: which job of ours is there, or 0 */
	uint64_t job;
};

/* GPUs kept for one waiting job. Start from {0}, keep it from pass to pass: so it keeps those that are draining. */
struct placement_reservation {
	bool active;  /* in this pass */
	uint64_t job; /* whose they are, or were in the last pass */
	size_t num_gpus, capacity;
	int *gpus; /* positions */
	/* Main memory and CPUs, which may be kept for another job. */
	bool host_active;
	uint64_t host_job;
	uint64_t host_bytes;
	unsigned cpus;
	int host_node; /* in a cluster: of which node */
};

void placement_reservation_finish(struct placement_reservation *r);

/* Whether the machine has the main memory and the CPUs. `reservation` may be NULL. */
enum placement_host placement_judge_host(const struct ledger *l, uint64_t job, const struct placement_need *need,
	const struct placement_reservation *reservation);

/*
 * Chooses need->num_gpus GPUs into ret_gpus: 0; -EAGAIN: not now; -ENODEV: never
 * with these GPUs (too small, too few, lost). `job` is who asks: its own
 * reservation does not hinder it. `reservation` and `verdicts` (one per GPU,
 * always filled) may be NULL.
 */
int placement_choose(const struct ledger *l, uint64_t job, const struct placement_need *need,
	const struct placement_reservation *reservation, int *ret_gpus, struct placement_verdict *verdicts);

/* In a cluster: the node for a job without GPUs, the one with the most CPUs left; -1: none now. */
int placement_choose_node(const struct ledger *l, uint64_t job, const struct placement_need *need,
	const struct placement_reservation *reservation);

/* Whether these GPUs, and this machine, could ever take such a job: enough GPUs of one vendor, each large enough. */
bool placement_is_possible(const struct ledger *l, const struct placement_need *need);

/*
 * Keeps GPUs for a job for which placement_choose() said -EAGAIN: first those
 * where it fits, then those it had already, then those where the least has to
 * end. GPUs which only somebody else can free are not kept; where too few are
 * left without them nothing is, and `active` stays false. 0 or -ENOMEM.
 */
int placement_reserve(
	struct placement_reservation *r, const struct ledger *l, uint64_t job, const struct placement_need *need);

/*
 * Keeps main memory and CPUs, if nothing is kept in this pass, for a job that waits for these, or for the GPUs that are
 * kept for it.
 */
void placement_reserve_host(
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
