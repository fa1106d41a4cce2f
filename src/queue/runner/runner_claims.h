/* SPDX-License-Identifier: MIT */
/*
 * What the runner is about to promise to a job, announced to the other queues of the
 * machine, and what they have promised to theirs. From the job's start on its keeper
 * holds the claim. Without real GPUs there are no claims, and all of this does nothing.
 */
#ifndef QUEUE_RUNNER_RUNNER_CLAIMS_H
#define QUEUE_RUNNER_RUNNER_CLAIMS_H

struct runner;
struct running;
struct text;

void runner_claims_open(struct runner *r);
void runner_claims_close(struct runner *r);
/* Reads the claims of the other queues into r->watching.others. -ENOMEM: the runner pauses. */
int runner_claims_read(struct runner *r);

void running_claim(struct running *run);
void running_unclaim(struct running *run);
/* Appends the claim that its keeper is to hold; nothing where there are no claims. */
int running_claim_text(const struct running *run, struct text *t);

#endif
