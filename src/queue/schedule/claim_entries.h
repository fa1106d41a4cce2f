/* SPDX-License-Identifier: MIT */
/* Claims of other queues, as the ledger wants them. */
#ifndef QUEUE_SCHEDULE_CLAIM_ENTRIES_H
#define QUEUE_SCHEDULE_CLAIM_ENTRIES_H

#include "queue/schedule/claim_proof.h"
#include "queue/schedule/claims.h"
#include "queue/schedule/gpu_users.h"
#include "queue/schedule/ledger.h"

/* What a ledger_job points into. */
struct claim_entry {
	int gpus[CLAIM_MAX_GPUS];
	size_t num_gpus;
	struct gpu_user user;
	struct ledger_claimant claimant;
};

/* Those that are about these GPUs and count (claim_proof.h); room for list->count of each. Returns how many. */
size_t claim_entries(const struct claims_list *list, const struct gd_gpu_list *gpus, const struct claim_proofs *proofs,
	struct claim_entry *entries, struct ledger_job *jobs);

#endif
