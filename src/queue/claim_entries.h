/* SPDX-License-Identifier: MIT */
/* Claims of other queues, as the ledger wants them. */
#ifndef QUEUE_CLAIM_ENTRIES_H
#define QUEUE_CLAIM_ENTRIES_H

#include "queue/claims.h"
#include "queue/gpu_users.h"
#include "queue/ledger.h"

/* What a ledger_job points into. */
struct claim_entry {
	int gpus[CLAIM_MAX_GPUS];
	size_t num_gpus;
	struct gpu_user user;
};

/* Those that are about these GPUs; room for list->count of each. Returns how many. */
size_t claim_entries(const struct claims_list *list, const struct gd_gpu_list *gpus, struct claim_entry *entries,
	struct ledger_job *jobs);

#endif
