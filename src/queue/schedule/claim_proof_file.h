/* SPDX-License-Identifier: MIT */
/*
 * What this user's runners know about the claims of others: the file ".proofs" in the user's own folder of claims.
 *
 * Nobody else can write the folder or open the file. Times are those of the monotonic clock, so records of an earlier
 * boot are ignored. Damaged lines are ignored as well: then a claim is believed for at most another CLAIM_PROOF_NS.
 */
#ifndef QUEUE_SCHEDULE_CLAIM_PROOF_FILE_H
#define QUEUE_SCHEDULE_CLAIM_PROOF_FILE_H

#include <stdint.h>

#include "queue/schedule/claim_proof.h"

/* How often runners write what they know. */
#define CLAIM_PROOF_SYNC_NS (UINT64_C(10) * NS_PER_S)

/* Adds what the file says. boot: of struct machine. A missing file says nothing. */
int claim_proofs_load(struct claim_proofs *p, uint64_t now_ns, const char *boot, int folder_fd);

/* The same, then writes all records. Does nothing while another process does so, or for CLAIM_PROOF_SYNC_NS after the
 * last time. */
int claim_proofs_sync(struct claim_proofs *p, uint64_t now_ns, const char *boot, int folder_fd);

#endif
