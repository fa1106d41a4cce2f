/* SPDX-License-Identifier: MIT */
/*
 * The claim of a keeper's job: it lives as long as the job, whatever becomes of the runner.
 *
 * One file for each keeper, made for its first job that has one, rewritten for each, and without any GPU in between.
 * Best effort, as all claims: what cannot be written is not told.
 */
#ifndef QUEUE_KEEPER_KEEPER_CLAIM_H
#define QUEUE_KEEPER_KEEPER_CLAIM_H

#include "queue/schedule/claims.h"

/* Start from {0}. */
struct keeper_claim {
	struct claims *claims; /* NULL: never needed yet */
	struct claim *claim;
	struct claim_info info;
	bool held;
	uint64_t taken_ns, written_ns;
};

/* text: as claim_info_format() wrote it, "" for none. */
void keeper_claim_take(struct keeper_claim *k, const char *text);
/* The job's memory no longer grows. */
void keeper_claim_settle(struct keeper_claim *k);
/* The job is over. */
void keeper_claim_leave(struct keeper_claim *k);
void keeper_claim_finish(struct keeper_claim *k);

/* When keeper_claim_on_time() wants to be called; 0: not at all. */
uint64_t keeper_claim_due(const struct keeper_claim *k, bool runner_gone);
void keeper_claim_on_time(struct keeper_claim *k, uint64_t now_ns, bool runner_gone);

#endif
