/* SPDX-License-Identifier: MIT */
/*
 * Which job a keeper has, and on which GPUs: in its own file, keepers/NAME, behind the name of its socket
 * (keeper_socket.h). A journal that lost records does not tell; this file and its lock do.
 */
#ifndef QUEUE_KEEPER_KEEPER_JOB_H
#define QUEUE_KEEPER_KEEPER_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define KEEPER_JOB_GPUS 256

struct keeper_job {
	const char *keeper; /* its name */
	pid_t holder;       /* its PID; -1: it cannot be named */
	uint64_t id;
	int gpus[KEEPER_JOB_GPUS]; /* numbers as in `start` */
	size_t num_gpus;
};

/* By the keeper, before a job can start. At most KEEPER_JOB_GPUS are written. */
int keeper_job_write(int lock_fd, uint64_t id, const int *gpus, size_t num_gpus);
/* When its end is written, or it did not start. */
int keeper_job_clear(int lock_fd);

/*
 * The keeper's allocation ends (allocation.h), and this job with it. Written at once: the keeper may be killed before
 * the job is over and its end is in the journal.
 */
int keeper_job_interrupt(int lock_fd, uint64_t id);
/* Whether a keeper has written that before it was killed. lock_name: its file, "keepers/NAME", below dir_fd. */
bool keeper_job_was_interrupted(int dir_fd, const char *lock_name, uint64_t id);

/*
 * The keeper that lives and has this job: its PID, -1 if the process cannot be named or the directory cannot be read,
 * 0 if there is none. dir_fd: of the journal's folder. Not for keepers: it opens their files.
 */
pid_t keeper_job_holder(int dir_fd, uint64_t id);

/* Calls fn for each keeper that lives and has a job. 0 or a negative errno value: the directory cannot be read. */
typedef void keeper_job_fn(void *context, const struct keeper_job *job);
int keeper_jobs_each(int dir_fd, keeper_job_fn *fn, void *context);

#endif
