/* SPDX-License-Identifier: MIT */
/*
 * Jobs that wait for a GPU, in the order in which they should start: higher priority first, then lower
 * order (job IDs).
 *
 * If a job does not fit, no job of the same kind fits that needs at least as much memory, so a pass
 * over a million waiting jobs checks only a few of them:
 *
 *     pending_rewind(p);
 *     while ((j = pending_peek(p)))
 *             fits(j) ? pending_remove(p, j) : pending_skip(p, need of j);
 */
#ifndef QUEUE_SCHEDULE_PENDING_H
#define QUEUE_SCHEDULE_PENDING_H

#include <stddef.h>
#include <stdint.h>

#include "queue/journal/job.h"
#include "queue/schedule/placement.h"

struct pending;

int pending_create(struct pending **ret);
void pending_destroy(struct pending *p);

/* Fill in order and priority first. The need is copied, except for its pin. 0 or -ENOMEM. */
int pending_add(struct pending *p, struct pending_job *job, const struct placement_need *need);

/* For a job that was started, cancelled or held: any waiting job, at any time. */
void pending_remove(struct pending *p, struct pending_job *job);

size_t pending_count(const struct pending *p);

/* The job's need, valid while it waits. */
const struct placement_need *pending_need(const struct pending *p, const struct pending_job *job);

/* Calls `tell` for each distinct need of waiting jobs, with the number of these jobs. */
void pending_each_need(const struct pending *p,
	void (*tell)(void *context, const struct placement_need *need, size_t num_jobs), void *context);

/* Begins a new pass: skipped jobs are considered again. */
void pending_rewind(struct pending *p);
/* The first job that has not been skipped, or NULL. */
struct pending_job *pending_peek(struct pending *p);
/*
 * Skips, until the next pass, the job of pending_peek() and all jobs that differ from it only in
 * memory and need at least its memory, or at least from_bytes if that is less.
 */
void pending_skip(struct pending *p, uint64_t from_bytes);

#endif
