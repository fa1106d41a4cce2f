/* SPDX-License-Identifier: MIT */
/*
 * Estimates when waiting jobs will start, from how long similar jobs took.
 *
 * The estimate uses a simple model: the machine has a fixed number of slots, one for each GPU; each job holds one or
 * several of them, and jobs start strictly in their order as soon as enough slots are free. It is not known when other
 * users and processes will release GPUs, so a job never gets slots that they block. Not modeled: jobs that are added
 * later, fail, are retried, share a GPU, start before a larger job, or wait for CPUs, main memory or their begin time.
 * Pure and deterministic.
 */
#ifndef QUEUE_SCHEDULE_EXPECTED_START_H
#define QUEUE_SCHEDULE_EXPECTED_START_H

#include <stdbool.h>
#include <stddef.h>

#include "queue/schedule/run_times.h"

/* Further waiting jobs are not estimated. */
#define EXPECTED_START_MAX 1000

struct expected_job {
	unsigned slots;                    /* how many it holds; 0: it starts at once and holds none */
	struct duration_estimate duration; /* for a running job, the remaining duration */
	bool waits;                        /* for a waiting job: it does not start now */
	unsigned blocked;                  /* slots that it does not get even if all jobs end */
};

/* In milliseconds from now. With a probability of 80% the job starts between low and high. */
struct expected_start {
	bool known;   /* false: no data, more slots needed than exist, or `blocked`; the times are not set */
	bool blocked; /* no estimate, because the job waits for GPUs that other users or processes block */
	bool at_most; /* it may start earlier: the duration of an earlier job, or which slots are blocked, is not known
		       */
	double low_ms, median_ms, high_ms;
};

/*
 * Fills ret[0…num_waiting); entries from EXPECTED_START_MAX on are not known. `waiting` is in the
 * order in which the jobs will start. Running jobs that hold more slots than are left count as holding
 * all that are left. 0 or -ENOMEM.
 */
int expected_start(unsigned num_slots, const struct expected_job *running, size_t num_running,
	const struct expected_job *waiting, size_t num_waiting, struct expected_start *ret);

#endif
