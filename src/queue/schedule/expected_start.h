/* SPDX-License-Identifier: MIT */
/*
 * When waiting jobs will start, estimated from how long jobs like them took.
 *
 * A model, not a promise: the machine has a fixed number of slots, one for each GPU; each job holds one or several of
 * them, and jobs start strictly in their order as soon as enough slots are free. Not foreseen: jobs that are added
 * later, fail, are retried, share a GPU, start in front of a larger one, or wait for CPUs, main memory, other users or
 * their time to begin. Pure and deterministic.
 */
#ifndef QUEUE_SCHEDULE_EXPECTED_START_H
#define QUEUE_SCHEDULE_EXPECTED_START_H

#include <stdbool.h>
#include <stddef.h>

#include "queue/schedule/run_times.h"

/* More waiting jobs are not estimated. */
#define EXPECTED_START_MAX 1000

struct expected_job {
	unsigned slots;                    /* how many it holds; 0: it starts at once and holds none */
	struct duration_estimate duration; /* of a running job, the rest */
};

/* From now on, in milliseconds. With a probability of 80 % the job starts between low and high. */
struct expected_start {
	bool known;   /* false: no data, or the job needs more slots than there are; nothing else is set */
	bool at_most; /* the duration of a job in front is not known: this one may start earlier */
	double low_ms, median_ms, high_ms;
};

/*
 * Fills ret[0…num_waiting), of which those from EXPECTED_START_MAX on are not known. `waiting` is in the order in which
 * the jobs will start. Running jobs that hold more slots than there are in all are taken as holding the rest of them.
 * 0 or -ENOMEM.
 */
int expected_start(unsigned num_slots, const struct expected_job *running, size_t num_running,
	const struct expected_job *waiting, size_t num_waiting, struct expected_start *ret);

#endif
