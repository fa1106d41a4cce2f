/* SPDX-License-Identifier: MIT */
/*
 * Announces to the other queues of the machine what the runner is about to promise to a job, and reads
 * their promises. Once the job has started, its keeper holds the claim. Without real GPUs there are no
 * claims, and these functions do nothing.
 */
#ifndef QUEUE_RUNNER_RUNNER_CLAIMS_H
#define QUEUE_RUNNER_RUNNER_CLAIMS_H

struct runner;
struct running;
struct text;

void runner_claims_open(struct runner *r);
void runner_claims_close(struct runner *r);
/* Reads the claims of the other queues into the scheduler. -ENOMEM: the runner pauses. */
int runner_claims_read(struct runner *r);

void running_claim(struct running *run);
void running_unclaim(struct running *run);
/* Appends the claim that the job's keeper will hold; nothing without claims. */
int running_claim_text(const struct running *run, struct text *t);

#endif
