/* SPDX-License-Identifier: MIT */
/* Converts claims of other queues into ledger entries. */
#ifndef QUEUE_SCHEDULE_CLAIM_ENTRIES_H
#define QUEUE_SCHEDULE_CLAIM_ENTRIES_H

#include "queue/schedule/claim_proof.h"
#include "queue/schedule/claims.h"
#include "queue/schedule/gpu_users.h"
#include "queue/schedule/ledger.h"

/* Memory that a ledger_job points to. */
struct claim_entry {
	int gpus[CLAIM_MAX_GPUS];
	size_t num_gpus;
	struct gpu_user user;
	struct ledger_claimant claimant;
};

/* The claims on these GPUs that count (claim_proof.h). entries, jobs: space for list->count each. Returns how many. */
size_t claim_entries(const struct claims_list *list, const struct gd_gpu_list *gpus, const struct claim_proofs *proofs,
	struct claim_entry *entries, struct ledger_job *jobs);

#endif
