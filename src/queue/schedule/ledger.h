/* SPDX-License-Identifier: MIT */
/*
 * How much memory of each GPU can be promised.
 *
 * A job that has started and not yet allocated keeps its promised memory, so:
 *
 *     free = the driver's free memory − Σ over jobs max(0, promised − observed)
 *
 * over our own running jobs and the claims of others. If the driver does not report the memory of each
 * process (containers, WSL, MIG), or if others have claims and /proc hides which processes are theirs
 * (hidepid):
 *
 *     free = min(the driver's free memory, total − Σ promised − what other processes used
 *            when none of these jobs ran there)
 *
 * Pure: it reads no file and queries no driver. GPUs are identified by their position in the array of
 * the last ledger_build().
 */
#ifndef QUEUE_SCHEDULE_LEDGER_H
#define QUEUE_SCHEDULE_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "gpu_dispatch.h"

#define LEDGER_QUEUE_ROOM 65

/* Threshold for jobs that declare nothing, if min_free_mem_mb is not set; at most 90% of the GPU's memory. */
#define LEDGER_DEFAULT_BYTES (UINT64_C(6000) << 20)

/* The effective value of `bytes` on one GPU. by_card: the default threshold, unless `bytes` is more. */
uint64_t ledger_bytes_on(const struct gd_gpu *gpu, uint64_t bytes, bool by_card);

/* The owner of a claim. */
struct ledger_claimant {
	uid_t user;
	uint64_t job;
	int64_t pid;                   /* 0: not known */
	char queue[LEDGER_QUEUE_ROOM]; /* "": not known */
};

/* A node of a cluster: GPUs with their own CPUs, memory and end. A job cannot span two nodes. */
#define LEDGER_NODE_ROOM 64
struct ledger_node {
	char name[LEDGER_NODE_ROOM];
	bool usable;         /* takes new jobs */
	unsigned cpus;       /* 0: no limit */
	uint64_t host_bytes; /* main memory; 0: not known, no limit */
	int64_t end_ms;      /* when it ends, in wall-clock time; 0: never, or not known */
	/* Maintained by the ledger. */
	unsigned cpus_promised;
	uint64_t host_promised_bytes;
};

/* A running job of ours, or a claim of another queue. */
struct ledger_job {
	uint64_t id;                            /* our job's ID; unused for a claim */
	bool foreign;                           /* a claim: counts as memory, not as one of our jobs_per_gpu */
	const struct ledger_claimant *claimant; /* owner of a claim; NULL: not known */
	bool ended; /* ended since the GPUs were sampled: the memory that it was seen to use is free now */
	bool declared;
	bool alone;              /* no other job may be on its GPUs */
	bool by_card;            /* see ledger_bytes_on() */
	bool hidden;             /* a claim, and it is not known which processes on its GPUs belong to it */
	bool settled;            /* its memory has stopped growing, see ledger_watch() */
	uint64_t promised_bytes; /* on each of its GPUs; for a claim, limited to the whole GPU */
	uint64_t host_bytes;     /* main memory */
	unsigned cpus;
	int node;        /* in a cluster: its node; -1: not known */
	const int *gpus; /* positions; invalid ones are ignored */
	size_t num_gpus;
	const int64_t *pids; /* all its processes that may be on a GPU, in any order */
	size_t num_pids;
};

/* What is known about a GPU beyond the sample; may be {0}. */
struct ledger_note {
	bool quarantined;        /* taken out of use by us, for example because a job there cannot be killed */
	const char *why;         /* message for quarantined */
	bool baseline_known;     /* see ledger_watch_baseline() */
	uint64_t baseline_bytes; /* used by others while none of the jobs ran there, or an estimate of that */
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
	bool foreign_pids;     /* the driver's PIDs are not ours (we are in a PID namespace) */
	/* In a cluster each GPU belongs to a node, and host_bytes and cpus are not used. */
	bool cluster;
	struct ledger_node *nodes; /* promised amounts are written there */
	size_t num_nodes;
	const int *gpu_nodes; /* one per GPU; -1: no node */
};

/* The holder of the largest part of a GPU's memory. */
enum ledger_holder {
	LEDGER_NOBODY,
	LEDGER_PROCESS, /* a process that is not ours: holder_pid */
	LEDGER_JOB,     /* our job: holder_job */
	LEDGER_CLAIM,   /* a claim of another queue: claimant */
};

/* One GPU's account. */
struct ledger_account {
	const struct gd_gpu *gpu;
	const struct ledger_note *note; /* never NULL */
	bool known;                     /* whether free_bytes is valid */
	bool attributable;
	uint64_t free_bytes;        /* what can be promised */
	uint64_t driver_free_bytes; /* as reported by the driver; equals free_bytes if not reported */
	bool driver_known;
	uint64_t promised_bytes;           /* Σ promised, for the second formula… */
	uint64_t claimed_bytes;            /* …the claims' part of it */
	uint64_t outstanding_bytes;        /* Σ max(0, promised − observed)… */
	uint64_t claims_outstanding_bytes; /* …the claims' part of it */
	uint64_t ours_observed_bytes;      /* what our jobs were seen to use */
	uint64_t drained_bytes;            /* what would be free if all our jobs there ended */
	unsigned jobs;                     /* our jobs */
	unsigned claims;                   /* claims of others */
	bool unsettled;                    /* the memory of an undeclared job still grows there */
	bool unsettled_foreign;            /* the same for a job of another queue: unsettled_claimant */
	size_t processes;                  /* processes on it, as far as the driver reports them… */
	size_t foreign_processes;          /* …and those not of our jobs */
	uint64_t unsettled_job;            /* our job whose memory still grows; 0: none */
	bool alone;                        /* a job of ours has the GPU to itself… */
	bool alone_foreign;                /* …or a job of another queue: alone_claimant */
	uint64_t some_job;                 /* one of our jobs there; the job that is alone, if there is one */
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
	uint64_t host_bytes, host_promised_bytes; /* of the machine, and how much of it our jobs were promised */
	unsigned cpus, cpus_promised;
	bool cluster;
	struct ledger_node *nodes; /* the input's, like gpu_nodes */
	size_t num_nodes;
	const int *gpu_nodes;
	/* Scratch memory, kept for the next build. */
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

/* Adds a job that has just been placed: same result as a rebuild with it. */
void ledger_add(struct ledger *l, const struct ledger_job *job);

/* Bytes of the listed processes on one GPU; false if the driver does not report them. */
bool ledger_observed(
	const struct gd_gpu *gpu, const int64_t *pids, size_t num_pids, bool foreign_pids, uint64_t *ret_bytes);

/* Tracks a job's memory until it no longer grows. Start from {0}. */
struct ledger_watch {
	uint64_t since_ns; /* when it last grew, or was first seen */
	uint64_t bytes;    /* the observed maximum */
	bool seen;
	bool settled;
};

/* A job has settled when it uses memory and has not grown by more than 2% for this long… */
#define LEDGER_SETTLE_NS UINT64_C(10000000000)
/* …or when none of its memory was seen for this long. */
#define LEDGER_SETTLE_UNSEEN_NS UINT64_C(60000000000)

/* Call it once per sample; known: whether bytes could be observed. Returns whether the job has settled, which is
 * permanent. */
bool ledger_watch(struct ledger_watch *w, uint64_t now_ns, bool known, uint64_t bytes);

/*
 * Call it once per sample. Without a job of ours or a claim on the GPU, the baseline is all used memory. Otherwise it
 * is kept between two limits: the used memory beyond promised_bytes, which was promised to these jobs and claims, and
 * all used memory. promised_bytes is UINT64_MAX if they may use more than was promised: then the lower limit is 0.
 */
void ledger_watch_baseline(
	struct ledger_note *note, const struct gd_gpu *gpu, bool any_job_there, uint64_t promised_bytes);
/* What counts as promised to the claim or job on this GPU. */
uint64_t ledger_promised(const struct gd_gpu *gpu, bool foreign, uint64_t bytes, bool by_card);

#endif
