/* SPDX-License-Identifier: MIT */
/*
 * How long the claims of another user count without a proof.
 *
 * A claim costs nothing, so users could block GPUs that they do not use. A user's claims on a GPU
 * count for CLAIM_PROOF_NS; after that only while the driver reports a process of the user there, or,
 * if the driver does not report whose processes are there or /proc hides their owners (hidepid), while
 * part of the GPU's memory is in use. The time is counted per user and GPU and is forgotten a day
 * after the last claim, so new claims do not extend it. A process of the user on the GPU resets it.
 * Claims of this user and of root always count.
 *
 * All runners of this user share the time through a file (claim_proof_file.h), which survives a
 * reboot. So all times are clock_wall_ns(). If the clock is set back, a record counts as seen now.
 */
#ifndef QUEUE_SCHEDULE_CLAIM_PROOF_H
#define QUEUE_SCHEDULE_CLAIM_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "gpu_dispatch.h"
#include "queue/schedule/claims.h"

/* Longer than a job takes to load its data before it touches the GPU. */
#define CLAIM_PROOF_NS (UINT64_C(900) * NS_PER_S)
/* How long after the user's last claim the time is forgotten. */
#define CLAIM_PROOF_FORGET_NS (UINT64_C(86400) * NS_PER_S)
/* Time between two reads of a claim counts up to this: the claim might not have existed all the time. */
#define CLAIM_PROOF_GAP_NS (UINT64_C(60) * NS_PER_S)

/* A user who claims a GPU, or has claimed it. */
struct claim_proof {
	uid_t user;
	char gpu[CLAIM_KEY_ROOM];
	uint64_t spent_ns;  /* time claimed without a proof */
	uint64_t seen_ns;   /* when a claim of the user was last seen */
	uint64_t proved_ns; /* when a process of the user was last seen on it; 0: never */
	bool in_use;        /* whose processes are there is not known, and the GPU's memory is in use */
};

/* Start from {0}. */
struct claim_proofs {
	struct claim_proof *proofs; /* ordered by user and GPU */
	size_t count, capacity;
	uint64_t synced_ns; /* see claim_proofs_sync() */
};

/* Call it after each claims_list(). foreign_pids: the driver's PIDs are from another PID namespace. */
int claim_proofs_update(struct claim_proofs *p, uint64_t now_ns, const struct claims_list *claims,
	const struct gd_gpu_list *gpus, bool foreign_pids);
void claim_proofs_finish(struct claim_proofs *p);

/* Whether the claims of this user on this GPU count. */
bool claim_proofs_count(const struct claim_proofs *p, uint64_t now_ns, uid_t user, const char *gpu);

/* Merges the record of another process: the later proof wins, then the longer time. */
int claim_proofs_merge(struct claim_proofs *p, const struct claim_proof *other);

/* The position of the GPU with this key; -1: not in the list. */
int claim_gpu_position(const struct gd_gpu_list *gpus, const char *key);

#endif
