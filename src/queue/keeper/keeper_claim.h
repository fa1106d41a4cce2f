/* SPDX-License-Identifier: MIT */
/*
 * The claim of a keeper's job: it lives as long as the job, even if the runner dies.
 *
 * Each keeper has one file, created for its first job with a claim, and rewritten for each such job.
 * Between jobs, the claim names no GPU. Best effort, like all claims: write errors are not reported.
 */
#ifndef QUEUE_KEEPER_KEEPER_CLAIM_H
#define QUEUE_KEEPER_KEEPER_CLAIM_H

#include "queue/schedule/claims.h"

/* Start from {0}. */
struct keeper_claim {
	struct claims *claims; /* NULL: not needed yet */
	struct claim *claim;
	struct claim_info info;
	bool held;
	uint64_t taken_ns, written_ns;
};

/* text: as claim_info_format() wrote it, "" if there is no claim. */
void keeper_claim_take(struct keeper_claim *k, const char *text);
/* The job's memory no longer grows. */
void keeper_claim_settle(struct keeper_claim *k);
/* The job has ended. */
void keeper_claim_leave(struct keeper_claim *k);
void keeper_claim_finish(struct keeper_claim *k);

/* When keeper_claim_on_time() must be called next; 0: never. */
uint64_t keeper_claim_due(const struct keeper_claim *k, bool runner_gone);
void keeper_claim_on_time(struct keeper_claim *k, uint64_t now_ns, bool runner_gone);

#endif
