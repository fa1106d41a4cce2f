/* SPDX-License-Identifier: MIT */
/*
 * How long jobs took, to estimate the duration of similar jobs.
 *
 * Two jobs are similar if they have the same name, or if their commands are equal once every number is
 * replaced: "train.py --lr 0.1 --seed 7" and "train.py --lr 3e-4 --seed 12". The name has precedence.
 * For each kind of job the last RUN_TIMES_SAMPLES durations are kept, for at most RUN_TIMES_KINDS
 * kinds; then the least recently seen kind is dropped. So the memory is bounded (about 400 KiB),
 * however long the journal is.
 *
 * Pure. Feed it with attempts that completed, oldest first: run_times_add() per `end` event, or run_times_add_job()
 * for all attempts of a job that was read.
 */
#ifndef QUEUE_SCHEDULE_RUN_TIMES_H
#define QUEUE_SCHEDULE_RUN_TIMES_H

#include <stdint.h>

#include "queue/journal/job.h"

#define RUN_TIMES_SAMPLES 16
#define RUN_TIMES_KINDS   4096

struct run_times;

/* NULL: out of memory. */
struct run_times *run_times_create(void);
void run_times_destroy(struct run_times *d);

/* Adds a completed attempt at the job, which took duration_ms. */
void run_times_add(struct run_times *d, const struct job *job, int64_t duration_ms);
/* Adds all completed attempts at the job. */
void run_times_add_job(struct run_times *d, const struct job *job);

/* In milliseconds. Eight of ten durations are between low and high. */
struct duration_estimate {
	unsigned samples; /* 0: no data, and nothing else is set */
	double low_ms, median_ms, high_ms;
};

/* How long the job will take. */
struct duration_estimate run_times_estimate(const struct run_times *d, const struct job *job);

/*
 * How much longer the job will take, after it has run for elapsed_ms: only earlier runs that took
 * longer count. A job that has outlived all of them is expected to take another elapsed_ms / 2, and at
 * most another elapsed_ms.
 */
struct duration_estimate run_times_remaining(const struct run_times *d, const struct job *job, int64_t elapsed_ms);

#endif
