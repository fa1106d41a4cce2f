/* SPDX-License-Identifier: MIT */
/*
 * Waiting leases: jobs whose keeper belongs to `gpuq exec` (keeper/lease.h).
 *
 * A lease waits for its turn like every job, as long as its keeper's lock is held. If the lock is
 * free, the lease can no longer be started and is cancelled. Leases of other machines do not wait
 * here.
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
	unsigned refusals; /* consecutive connections that failed although the keeper lives */
	bool parked;       /* not among the waiting jobs until it is checked again */
};

struct runner_leases {
	struct runner_lease *leases; /* pending or held leases, and some that no longer are */
	size_t count, capacity;
};

/* Starts watching a pending or held lease. */
void runner_lease_watch(struct runner *r, const struct job *job);
/* Whether a pending lease may now wait among the other jobs. */
bool runner_lease_may_wait(struct runner *r, const struct job *job);
/* Cancels leases whose keeper is gone, and retries leases that could not be reached. */
void runner_leases_judge(struct runner *r);
/*
 * Connects to the keeper and appends `grant`, under the fence. NULL: the lease is parked, its keeper
 * will be found dead, or the fence has changed.
 */
struct runner_keeper *runner_lease_grant(struct runner *r, const struct job *job, struct running *run);

#endif
