/* SPDX-License-Identifier: MIT */
/*
 * What a job waits for, as an onlooker can tell: from the journal, from what the
 * runner wrote into its lock file, and from the GPUs as they are now.
 */
#ifndef QUEUE_OUTLOOK_H
#define QUEUE_OUTLOOK_H

#include "queue/follow.h"
#include "queue/placement.h"

/* What the runner goes by. */
struct runner_rules {
	int64_t min_free_mem_mb;
	int jobs_per_gpu;
	char gpus[256]; /* specification; "": all */
};

/* A line of text for runner.lock, and back; for who only looks on. */
int runner_rules_write(int fd, const struct runner_rules *rules);
/* 0, or -ENOENT where there is nothing that can be read. */
int runner_rules_read(int dir_fd, struct runner_rules *ret);

/* What a job needs of each GPU. */
void job_need(const struct job *job, int64_t min_free_mem_mb, struct placement_need *ret);

/*
 * Lines, each with its newline. `rules`: for when nobody runs the queue. `gpus`: as they are now, from
 * who follows them anyway; NULL: they are asked, which takes as long as their drivers do.
 */
int outlook(struct follow *f, const struct job *job, const struct runner_rules *rules, const struct gd_gpu_list *gpus,
	struct text *t, struct gd_error *err);

#endif
