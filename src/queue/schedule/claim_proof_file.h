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

#include "queue/schedule/claim_proof.h"

/* How often runners write the file. */
#define CLAIM_PROOF_SYNC_NS (UINT64_C(10) * NS_PER_S)

/* Merges the files. host: from struct machine. Missing files are ignored. Call claims_list() first. */
int claim_proofs_load(struct claim_proofs *p, uint64_t now_ns, const char *host, struct claims *claims);

/* Merges the file, then writes all records, unless another process does so now. Does nothing for CLAIM_PROOF_SYNC_NS
 * after it has written them. */
int claim_proofs_sync(struct claim_proofs *p, uint64_t now_ns, const char *host, struct claims *claims);

#endif
