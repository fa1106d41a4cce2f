/* SPDX-License-Identifier: MIT */
/* What a job needs of each GPU and of the machine. */
#ifndef QUEUE_SCHEDULE_NEED_H
#define QUEUE_SCHEDULE_NEED_H

#include "queue/journal/job.h"
#include "queue/schedule/placement.h"

/* The runner's defaults for jobs without their own settings. */
struct need_rules {
	int64_t min_free_mem_mb; /* -1: not set; the default threshold applies, and undeclared jobs do not share */
	int jobs_per_gpu;        /* from 2 on, undeclared jobs share */
};

/*
 * Memory: --mem, else min_free_mem_mb (the job's, else the runner's), else the default threshold.
 * learned_mb > 0: the observed usage of an attempt that ran out of GPU memory. It raises the need and
 * never lowers it. A margin is added if enough GPUs of `gpus` (or NULL) are large enough, because the
 * same amount would not suffice again. A job with --exclusive shares its GPUs with no other job. Of the
 * other jobs, those with --mem share GPUs; those without --mem share them only if min_free_mem_mb was
 * set or jobs_per_gpu is at least 2.
 */
void wish_need(const struct job_wish *wish, int64_t learned_mb, const struct need_rules *rules,
	const struct gd_gpu *const *gpus, size_t num_gpus, struct placement_need *ret);

#endif
