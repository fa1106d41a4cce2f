/* SPDX-License-Identifier: MIT */
/*
 * For how long the claims of another user are believed without a proof.
 *
 * A claim costs nothing, so a user could block a GPU that he does not use. His claims on a GPU count for
 * CLAIM_PROOF_NS; after that only while the driver sees a process of his on it. The time runs per user and GPU, so new
 * claims do not extend it. Claims of this user and of root always count, and so do all claims on a GPU whose driver
 * does not say whose processes are there.
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

/* A user who claims a GPU. */
struct claim_proof {
	uid_t user;
	int gpu;           /* position in the list of GPUs */
	uint64_t since_ns; /* when the user first claimed it, or was last seen on it */
};

/* Start from {0}. */
struct claim_proofs {
	struct claim_proof *proofs; /* in order of user and GPU */
	size_t count;
};

/* After each claims_list(). foreign_pids: the driver's PIDs are not those of this machine as we see it. */
int claim_proofs_update(struct claim_proofs *p, uint64_t now_ns, const struct claims_list *claims,
	const struct gd_gpu_list *gpus, bool foreign_pids);
void claim_proofs_finish(struct claim_proofs *p);

/* Whether the claims of this user on this GPU count. */
bool claim_proofs_count(const struct claim_proofs *p, uint64_t now_ns, uid_t user, int gpu);

/* The position of the GPU with this key; -1: not in the list. */
int claim_gpu_position(const struct gd_gpu_list *gpus, const char *key);

#endif
