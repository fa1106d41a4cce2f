/* SPDX-License-Identifier: MIT */
/*
 * How much memory each GPU really has to give.
 *
 * A job that has started and not yet allocated keeps its room, so:
 *
 *     free = what the driver says − Σ over jobs max(0, promised − observed)
 *
 * over our own running jobs and the claims of others. Where the driver does not
 * tell whose memory is whose (containers, WSL, MIG):
 *
 *     free = min(what the driver says, total − Σ promised − what others used
 *            when none of these jobs ran there)
 *
 * Pure: it reads no file and asks no driver. GPUs are meant by their position
 * in the array of the last ledger_build().
 */
#ifndef QUEUE_SCHEDULE_LEDGER_H
#define QUEUE_SCHEDULE_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "gpu_dispatch.h"

#define LEDGER_QUEUE_ROOM 65

/* Threshold for jobs that declare nothing, where nobody set min_free_mem_mb; at most 90 % of the card. */
#define LEDGER_DEFAULT_BYTES (UINT64_C(6000) << 20)

/* What `bytes` means on one GPU. by_card: the default threshold, unless `bytes` is more. */
uint64_t ledger_bytes_on(const struct gd_gpu *gpu, uint64_t bytes, bool by_card);

/* Whose a claim is. */
struct ledger_claimant {
	uid_t user;
	uint64_t job;
	int64_t pid;                   /* 0: not known */
	char queue[LEDGER_QUEUE_ROOM]; /* "": not known */
};

/* A node of a cluster: GPUs that one process cannot leave, with their own CPUs, memory and end. */
#define LEDGER_NODE_ROOM 64
struct ledger_node {
	char name[LEDGER_NODE_ROOM];
	bool usable;         /* takes new jobs */
	unsigned cpus;       /* 0: no limit */
	uint64_t host_bytes; /* main memory; 0: not known, no limit */
	int64_t end_ms;      /* when it ends, in wall-clock time; 0: never, or not known */
	/* Kept by the ledger. */
	unsigned cpus_promised;
	uint64_t host_promised_bytes;
};

/* A running job of ours, or a claim of somebody else. */
struct ledger_job {
	uint64_t id;                            /* ours: the job's; a claim's is not used */
	bool foreign;                           /* a claim: counts as memory, not as one of our jobs_per_gpu */
	const struct ledger_claimant *claimant; /* of a claim; NULL: not known */
	bool ended;                             /* since the GPUs were sampled: what it was seen to use is free now */
	bool declared;
	bool alone;              /* no other job may be on its GPUs */
	bool by_card;            /* see ledger_bytes_on() */
	bool settled;            /* its memory has stopped growing, see ledger_watch() */
	uint64_t promised_bytes; /* on each of its GPUs; a claim's counts at most as the whole card */
	uint64_t host_bytes;     /* main memory */
	unsigned cpus;
	int node;        /* in a cluster: where it runs; -1: not known */
	const int *gpus; /* positions; others are ignored */
	size_t num_gpus;
	const int64_t *pids; /* all its processes that may be on a GPU, in any order */
	size_t num_pids;
};

/* What is known of a GPU beyond the sample; {0} is fine. */
struct ledger_note {
	bool quarantined;        /* taken out by us, e.g. a job there cannot be killed */
	const char *why;         /* in words, for quarantined */
	bool baseline_known;     /* see ledger_watch_baseline() */
	uint64_t baseline_bytes; /* used by others when none of the jobs ran there */
};

struct ledger_input {
	const struct gd_gpu *const *gpus;
	const struct ledger_note *notes; /* one per GPU, or NULL */
	size_t num_gpus;
	const struct ledger_job *jobs;
	size_t num_jobs;
	unsigned jobs_per_gpu; /* 0: no limit */
	uint64_t host_bytes;   /* main memory of the machine; 0: not known, no limit */
	unsigned cpus;         /* CPUs of the machine; 0: no limit */
	bool foreign_pids;     /* PIDs of the driver are not ours (we are in a PID namespace) */
	/* A cluster: then each GPU belongs to a node, and host_bytes and cpus are not used. */
	bool cluster;
	struct ledger_node *nodes; /* what is promised of them is written there */
	size_t num_nodes;
	const int *gpu_nodes; /* one per GPU; -1: of no node */
};

/* Who has the largest part of a GPU's memory. */
enum ledger_holder {
	LEDGER_NOBODY,
	LEDGER_PROCESS, /* of others: holder_pid */
	LEDGER_JOB,     /* ours: holder_job */
	LEDGER_CLAIM,   /* of another queue: claimant */
};

/* One GPU's account. */
struct ledger_account {
	const struct gd_gpu *gpu;
	const struct ledger_note *note; /* never NULL */
	bool known;                     /* whether free_bytes means anything */
	bool attributable;
	uint64_t free_bytes;        /* what can be promised */
	uint64_t driver_free_bytes; /* what the driver says; equals free_bytes where it says nothing */
	bool driver_known;
	uint64_t promised_bytes;           /* Σ promised, for the second formula… */
	uint64_t claimed_bytes;            /* …the claims' part of it */
	uint64_t outstanding_bytes;        /* Σ max(0, promised − observed)… */
	uint64_t claims_outstanding_bytes; /* …the claims' part of it */
	uint64_t ours_observed_bytes;      /* what our jobs are seen to use */
	uint64_t drained_bytes;            /* what would be free if all our jobs there ended */
	unsigned jobs;                     /* ours */
	unsigned claims;                   /* of others */
	bool unsettled;                    /* an undeclared job's memory still grows there… */
	bool unsettled_foreign;            /* …somebody else's */
	size_t processes;                  /* on it, as far as the driver tells… */
	size_t foreign_processes;          /* …and not of our jobs */
	uint64_t unsettled_job;            /* …or this one of ours */
	bool alone;                        /* a job of ours has the GPU for itself… */
	bool alone_foreign;                /* …a job of another queue: claimant is in alone_claimant */
	uint64_t some_job;                 /* one of our jobs there; the one that is alone, if there is one */
	enum ledger_holder holder;
	int64_t holder_pid;
	uint64_t holder_job;
	uint64_t holder_bytes;
	struct ledger_claimant claimant;           /* for LEDGER_CLAIM */
	struct ledger_claimant unsettled_claimant; /* for unsettled_foreign */
	struct ledger_claimant alone_claimant;     /* for alone_foreign */
};

struct ledger {
	struct ledger_account *accounts;
	const struct gd_gpu *const *gpus; /* the input's */
	size_t num_gpus;
	unsigned jobs_per_gpu;
	uint64_t host_bytes, host_promised_bytes; /* of the machine, and what our jobs were promised of it */
	unsigned cpus, cpus_promised;
	bool cluster;
	struct ledger_node *nodes; /* the input's, as gpu_nodes */
	size_t num_nodes;
	const int *gpu_nodes;
	/* Scratch, kept for the next build. */
	size_t accounts_capacity;
	struct ledger_owner *owners;
	size_t num_owners, owners_capacity;
	uint64_t *observed;
	size_t observed_capacity;
};

/* Start from {0}. The input's GPUs and notes must outlive the ledger's use. 0 or -ENOMEM. */
int ledger_build(struct ledger *l, const struct ledger_input *in);
void ledger_finish(struct ledger *l);

/* The node of a GPU; -1: none, or not a cluster. */
static inline int ledger_node_of(const struct ledger *l, size_t gpu)
{
	int node = l->cluster && gpu < l->num_gpus ? l->gpu_nodes[gpu] : -1;
	return node >= 0 && (size_t)node < l->num_nodes ? node : -1;
}

/* A job that has just been placed: the same as building anew with it. */
void ledger_add(struct ledger *l, const struct ledger_job *job);

/* Bytes of the listed processes on one GPU; false where the driver does not tell. */
bool ledger_observed(
	const struct gd_gpu *gpu, const int64_t *pids, size_t num_pids, bool foreign_pids, uint64_t *ret_bytes);

/* Follows a job's memory until it no longer grows. Start from {0}. */
struct ledger_watch {
	uint64_t since_ns; /* when it last grew, or was first seen */
	uint64_t bytes;    /* the most it has had */
	bool seen;
	bool settled;
};

/* It has settled when it has something and has not grown by more than 2 % for this long… */
#define LEDGER_SETTLE_NS UINT64_C(10000000000)
/* …or when nothing at all was seen of it for this long. */
#define LEDGER_SETTLE_UNSEEN_NS UINT64_C(60000000000)

/* Once per sample; known: whether bytes could be observed. Returns whether it has settled, once and for all. */
bool ledger_watch(struct ledger_watch *w, uint64_t now_ns, bool known, uint64_t bytes);

/* Once per sample: remembers what others use while nothing of ours, nor a claim, is there. */
void ledger_watch_baseline(struct ledger_note *note, const struct gd_gpu *gpu, bool any_job_there);

#endif
