/* SPDX-License-Identifier: MIT */
/*
 * What this user's runners know about the claims of others, in a file that only this user can open.
 *
 * The file is "claims-HOST" in the user's state directory (base/state_dir.h), where no other user can take its name
 * or fill the directory. If that is not available, as in an account without a home or with a full disk, it is ".proofs"
 * in the user's own folder of claims. Damaged lines are ignored: then a claim is believed for at most another
 * CLAIM_PROOF_NS.
 */
#ifndef QUEUE_SCHEDULE_CLAIM_PROOF_FILE_H
#define QUEUE_SCHEDULE_CLAIM_PROOF_FILE_H

#include <stdint.h>

#include "queue/schedule/claim_proof.h"

/* How often runners write what they know. */
#define CLAIM_PROOF_SYNC_NS (UINT64_C(10) * NS_PER_S)

/* Adds what the files say. host: of struct machine. Missing files say nothing. Call claims_list() before. */
int claim_proofs_load(struct claim_proofs *p, uint64_t now_ns, const char *host, struct claims *claims);

/* Adds what the file says, then writes all records. Does nothing while another process does so, or for
 * CLAIM_PROOF_SYNC_NS after the last time. */
int claim_proofs_sync(struct claim_proofs *p, uint64_t now_ns, const char *host, struct claims *claims);

#endif
