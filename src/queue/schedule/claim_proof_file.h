/* SPDX-License-Identifier: MIT */
/*
 * Stores what this user's runners know about the claims of others, in a file that only this user can
 * open.
 *
 * The file is "claims-HOST" in the user's state directory (base/state_dir.h), where no other user can
 * take its name or fill the directory. If that is not available, as in an account without a home or
 * with a full disk, it is ".proofs" in the user's own claims folder. Damaged lines are ignored: then a
 * claim counts for at most another CLAIM_PROOF_NS.
 */
#ifndef QUEUE_SCHEDULE_CLAIM_PROOF_FILE_H
#define QUEUE_SCHEDULE_CLAIM_PROOF_FILE_H

#include <stdint.h>

#include "base/machine.h"
#include "queue/schedule/claim_proof.h"

/* How often runners write the file. A runner that ends earlier has written when it first saw the claims. */
#define CLAIM_PROOF_SYNC_NS (UINT64_C(10) * NS_PER_S)

/* Merges the files. host: from struct machine. Missing files are ignored. Call claims_list() first. */
int claim_proofs_load(struct claim_proofs *p, uint64_t now_ns, const char *host, struct claims *claims);

/*
 * For runners: claim_proofs_update(), and shares the records with this user's other runners. `claims` is where `list`
 * comes from. Best effort: if no file is usable, this runner counts the time from its own start.
 */
int claim_proofs_update_shared(struct claim_proofs *p, uint64_t now_ns, struct claims *claims,
	const struct claims_list *list, const struct gd_gpu_list *gpus, const struct machine *here);

/* Merges the file, then writes all records, unless another process does so now. Does nothing for CLAIM_PROOF_SYNC_NS
 * after it has written them. */
int claim_proofs_sync(struct claim_proofs *p, uint64_t now_ns, const char *host, struct claims *claims);

#endif
