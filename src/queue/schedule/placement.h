/* SPDX-License-Identifier: MIT */
/*
 * Chooses the GPUs of a job, or reports for each GPU why the job does not get it.
 *
 * Of the GPUs where the job fits, it gets the one with the most free memory; ties go to the lower
 * position. A job with several GPUs gets GPUs that are linked or on one NUMA node (topology.h). A job
 * never gets the same GPU twice, nor GPUs of two vendors. A job with several GPUs gets no MIG
 * instances, because CUDA opens only one of them.
 *
 * No job starves: in each pass over the waiting jobs (scheduler.c) the first job that does not fit
 * reserves the GPUs it will get, and later jobs start elsewhere. The first job that waits for main
 * memory or CPUs reserves these in the same way.
 *
 * In a cluster each GPU belongs to a node. A job gets GPUs of one node, which must have the main
 * memory, the CPUs and enough time for the job. Whether the cluster could *ever* take a job is not
 * checked: nodes come and go.
 *
 * Pure, like the ledger.
 */
#ifndef QUEUE_SCHEDULE_PLACEMENT_H
#define QUEUE_SCHEDULE_PLACEMENT_H

#include "base/text.h"
#include "queue/schedule/ledger.h"

struct placement_need {
	uint64_t memory_bytes; /* on each GPU */
	bool declared;         /* with --mem; other jobs that share wait until memory has settled */
	bool alone;            /* gets GPUs with none of our jobs on them, and no other job is placed there */
	bool by_card;          /* the default threshold, see ledger_bytes_on() */
	unsigned num_gpus;     /* 0: never waits for a GPU */
	unsigned cpus;         /* 0: not declared */
	uint64_t host_bytes;   /* main memory; 0: not declared */
	const char *pin;       /* see gpu_pin.h; NULL: any GPU */
	/*
	 * In a cluster: how long the job takes, rounded up by an eighth at most, so that refusing a
	 * long job does not skip shorter ones; 0: not known.
	 */
	int64_t time_ms;
	int64_t over_ms; /* in a cluster: when this job (not its class) ends if it starts now; 0: not known */
};

enum placement_reason {
	PLACEMENT_FITS,
	PLACEMENT_MEMORY,         /* not enough now */
	PLACEMENT_TOO_SMALL,      /* never enough */
	PLACEMENT_MEMORY_UNKNOWN, /* the driver does not report it: one job at a time */
	PLACEMENT_JOBS,           /* jobs_per_gpu reached */
	PLACEMENT_UNSETTLED,      /* another undeclared job's memory still grows */
	PLACEMENT_OCCUPIED,       /* the job shares its GPU with no other, and another job is there */
	PLACEMENT_TAKEN,          /* a job there shares its GPU with no other */
	PLACEMENT_EXCLUSIVE,      /* exclusive compute mode, and in use */
	PLACEMENT_RESERVED,       /* reserved for an earlier job */
	PLACEMENT_QUARANTINED,
	PLACEMENT_UNHEALTHY, /* lost, not answering or unreadable: see the GPU's health */
	PLACEMENT_SPLIT,     /* the GPU is split: its MIG instances take jobs */
	PLACEMENT_MIG,       /* an instance, and the job wants several GPUs */
	PLACEMENT_PINNED,    /* the job is pinned to other GPUs */
	PLACEMENT_VENDOR,    /* fits, but not enough GPUs of its vendor */
	PLACEMENT_APART,     /* fits, but not enough GPUs on its node */
	PLACEMENT_NODE_AWAY, /* the node takes no job now */
	PLACEMENT_NODE_TIME, /* the node ends before the job would end */
	PLACEMENT_NODE_HOST, /* the node lacks main memory or CPUs */
};

/* "fits", "memory"… */
const char *placement_reason_name(enum placement_reason reason);

/* Whether the machine can take the job, apart from its GPUs. */
enum placement_host {
	PLACEMENT_HOST_FITS,
	PLACEMENT_HOST_MEMORY,
	PLACEMENT_HOST_CPUS,
	PLACEMENT_HOST_RESERVED,  /* the rest is reserved for an earlier job */
	PLACEMENT_HOST_TOO_SMALL, /* the machine never has this much */
};

/* The verdict of one GPU on one need. More figures are in the ledger's account. */
struct placement_verdict {
	enum placement_reason reason;
	/* PLACEMENT_RESERVED: the job it is reserved for; UNSETTLED: the growing job, if ours; OCCUPIED, TAKEN: our
	 * job there, or 0 */
	uint64_t job;
};

/* GPUs reserved for one waiting job. Start from {0} and keep it from pass to pass, so that draining GPUs stay
 * reserved. */
struct placement_reservation {
	bool active;  /* in this pass */
	uint64_t job; /* the job they are reserved for, or were in the last pass */
	size_t num_gpus, capacity;
	int *gpus; /* positions */
	/* Main memory and CPUs, which may be reserved for another job. */
	bool host_active;
	uint64_t host_job;
	uint64_t host_bytes;
	unsigned cpus;
	int host_node; /* in a cluster: the node */
};

void placement_reservation_finish(struct placement_reservation *r);

/* Whether the machine has the main memory and the CPUs. `reservation` may be NULL. */
enum placement_host placement_judge_host(const struct ledger *l, uint64_t job, const struct placement_need *need,
	const struct placement_reservation *reservation);

/*
 * Chooses need->num_gpus GPUs into ret_gpus: 0; -EAGAIN: not now; -ENODEV: never with these GPUs (too
 * small, too few, lost). The reservation of `job` itself does not block it. `reservation` and
 * `verdicts` (one per GPU, always filled) may be NULL.
 */
int placement_choose(const struct ledger *l, uint64_t job, const struct placement_need *need,
	const struct placement_reservation *reservation, int *ret_gpus, struct placement_verdict *verdicts);

/* In a cluster: the node for a job without GPUs, which is the node with the most CPUs left; -1: none now. */
int placement_choose_node(const struct ledger *l, uint64_t job, const struct placement_need *need,
	const struct placement_reservation *reservation);

/* Whether these GPUs, and this machine, could ever take such a job: enough GPUs of one vendor, each large enough. */
bool placement_is_possible(const struct ledger *l, const struct placement_need *need);

/* How many GPUs could take the job if all our own jobs ended: others do not block them. */
size_t placement_within_reach(const struct ledger *l, uint64_t job, const struct placement_need *need);

/*
 * Reserves GPUs for a job for which placement_choose() returned -EAGAIN: first those where it fits,
 * then those already reserved for it, then those where the least has to end. GPUs that only other queues or
 * processes can free are not reserved; if too few remain, nothing is reserved and `active` stays
 * false. 0 or -ENOMEM.
 */
int placement_reserve(
	struct placement_reservation *r, const struct ledger *l, uint64_t job, const struct placement_need *need);

/*
 * Reserves main memory and CPUs, if none are reserved in this pass, for a job that waits for these, or
 * for the GPUs that are reserved for it.
 */
void placement_reserve_host(
	struct placement_reservation *r, const struct ledger *l, uint64_t job, const struct placement_need *need);

/*
 * Called after a job with this need was refused. Jobs of the same kind that need at least the returned amount of memory
 * need not be checked in this pass. The amount is the need of the refused job. Once something is reserved, the amount
 * may be less: later jobs that do not fit can no longer reserve anything, so only jobs that fit have to be found.
 */
uint64_t placement_beyond(
	const struct ledger *l, const struct placement_need *need, const struct placement_reservation *r);

/* Begins a pass: nothing is reserved yet. */
void placement_rewind(struct placement_reservation *r);

/* Writes "alice, python" for a PID into buf, or returns false. */
typedef bool placement_describe(void *context, int64_t pid, char *buf, size_t size);

/*
 * One line without its newline, for `gpuq why`: "GPU 1: 9.1 GiB free, job needs 12.0 GiB; 20.3 GiB held by
 * pid 4711 (alice, python)". `describe` may be NULL.
 */
void placement_words(struct text *t, const struct ledger *l, size_t gpu, const struct placement_need *need,
	const struct placement_verdict *verdict, placement_describe *describe, void *context);

#endif
