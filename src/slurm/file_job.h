/* SPDX-License-Identifier: MIT */
/* The state of one worker's job, read from the journal of a launch's queue. */
#ifndef SLURM_FILE_JOB_H
#define SLURM_FILE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "queue/journal/follow.h"

struct file_job {
	struct follow follow;
	bool open; /* the journal exists and was read */
	uint64_t id;
};

void file_job_init(struct file_job *j, uint64_t id);
void file_job_finish(struct file_job *j);

/* Reads the new lines of the journal, which need not exist yet. */
int file_job_update(struct file_job *j, const char *path, struct gd_error *err);

/* Whether the journal proves that no process of this attempt is alive: its end is recorded, or a later attempt is. */
bool file_job_has_ended(const struct file_job *j, uint32_t attempt);
/* Whether the job will not run again, and why. */
bool file_job_is_over(const struct file_job *j, char *words, size_t room);

#endif
