/* SPDX-License-Identifier: MIT */
/* What a job needs of each GPU. */
#ifndef QUEUE_SCHEDULE_NEED_H
#define QUEUE_SCHEDULE_NEED_H

#include "queue/journal/job.h"
#include "queue/schedule/placement.h"

/*
 * Its own memory, else min_free_mem_mb: its own, else the runner's. After it ran out of
 * memory at least what it was seen to use; and more than that where `gpus` (or NULL)
 * has cards that are so large: the same room would not do again.
 */
void job_need(
	const struct job *job, int64_t min_free_mem_mb, const struct gd_gpu_list *gpus, struct placement_need *ret);

#endif
