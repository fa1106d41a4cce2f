/* SPDX-License-Identifier: MIT */
/*
 * For how long the claims of another user are believed without a proof.
 *
 * A claim costs nothing, so a user could block a GPU that he does not use. His claims on a GPU count for
 * CLAIM_PROOF_NS; after that only while the driver sees a process of his on it, or, if the driver does not say whose
 * processes are there, while a part of the GPU's memory is in use. The time runs per user and GPU and is forgotten a
 * day after his last claim, so new claims do not extend it. A process of his on the GPU sets it back. Claims of this
 * user and of root always count.
 *
 * All runners of this user share the time through a file (claim_proof_file.h), also after a reboot. So all times are
 * clock_wall_ns(). If the clock is set back, a record counts as seen now.
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
/* How long after his last claim the time of a user is forgotten. */
#define CLAIM_PROOF_FORGET_NS (UINT64_C(86400) * NS_PER_S)
/* Time between two looks at a claim counts up to this: the claim may not have been there all the time. */
#define CLAIM_PROOF_GAP_NS (UINT64_C(60) * NS_PER_S)

/* A user who claims a GPU, or has claimed it. */
struct claim_proof {
	uid_t user;
	char gpu[CLAIM_KEY_ROOM];
	uint64_t spent_ns;  /* time that he has claimed it without a proof */
	uint64_t seen_ns;   /* when a claim of his was last seen */
	uint64_t proved_ns; /* when a process of his was last seen on it; 0: never */
	bool in_use;        /* its driver names no processes, and its memory is in use */
};

/* Start from {0}. */
struct claim_proofs {
	struct claim_proof *proofs; /* in order of user and GPU */
	size_t count, capacity;
	uint64_t synced_ns; /* see claim_proofs_sync() */
};

/* After each claims_list(). foreign_pids: the driver's PIDs are not those of this machine as we see it. */
int claim_proofs_update(struct claim_proofs *p, uint64_t now_ns, const struct claims_list *claims,
	const struct gd_gpu_list *gpus, bool foreign_pids);
void claim_proofs_finish(struct claim_proofs *p);

/* Whether the claims of this user on this GPU count. */
bool claim_proofs_count(const struct claim_proofs *p, uint64_t now_ns, uid_t user, const char *gpu);

/* Adds what another process knows: of two records the one with the later proof, then the longer time. */
int claim_proofs_merge(struct claim_proofs *p, const struct claim_proof *other);

/* The position of the GPU with this key; -1: not in the list. */
int claim_gpu_position(const struct gd_gpu_list *gpus, const char *key);

#endif
