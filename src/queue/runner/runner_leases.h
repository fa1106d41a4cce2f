/* SPDX-License-Identifier: MIT */
/*
 * Leases that wait: jobs whose keeper belongs to `gpuq exec` (keeper/lease.h).
 *
 * A lease waits for its turn like every job, as long as somebody holds the lock of its keeper. If nobody does, nobody
 * can start it any more, and it is cancelled. Leases of other machines do not wait here.
 */
#ifndef QUEUE_RUNNER_RUNNER_LEASES_H
#define QUEUE_RUNNER_RUNNER_LEASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct job;
struct runner;
struct runner_keeper;
struct running;

struct runner_lease {
	uint64_t id;
	unsigned refusals; /* connections in a row that failed although the keeper lives */
	bool parked;       /* not among the jobs that wait, until it is looked at again */
};

struct runner_leases {
	struct runner_lease *leases; /* those that are pending or held, and some that are no longer */
	size_t count, capacity;
};

/* A pending or held lease: it is watched from here on. */
void runner_lease_watch(struct runner *r, const struct job *job);
/* Whether a pending lease may wait among the other jobs now. */
bool runner_lease_may_wait(struct runner *r, const struct job *job);
/* Cancels those whose keeper is gone, and tries those again that could not be reached. */
void runner_leases_judge(struct runner *r);
/*
 * Connects to the keeper and appends `grant`, under the fence. NULL: the lease is parked, or its keeper is about to be
 * found dead; or the fence has changed.
 */
struct runner_keeper *runner_lease_grant(struct runner *r, const struct job *job, struct running *run);

#endif
