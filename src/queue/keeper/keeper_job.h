/* SPDX-License-Identifier: MIT */
/*
 * The job that a keeper has, and its GPUs: written in the keeper's own file, keepers/NAME, after the
 * name of its socket (keeper_socket.h). A journal that lost records may lack this information; the
 * file and its lock have it.
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
	pid_t holder;       /* its PID; -1: not known */
	uint64_t id;
	int gpus[KEEPER_JOB_GPUS]; /* numbers as in `start` */
	size_t num_gpus;
};

/* Called by the keeper before a job can start. Writes at most KEEPER_JOB_GPUS GPUs. */
int keeper_job_write(int lock_fd, uint64_t id, const int *gpus, size_t num_gpus);
/* Called when the job's end is written, or if it did not start. */
int keeper_job_clear(int lock_fd);

/*
 * The keeper's allocation ends (allocation.h), and this job with it. Written at once: the keeper may
 * be killed before the job has ended and its end is in the journal.
 */
int keeper_job_interrupt(int lock_fd, uint64_t id);
/* Whether the keeper wrote this before it was killed. lock_name: its file, "keepers/NAME", below dir_fd. */
bool keeper_job_was_interrupted(int dir_fd, const char *lock_name, uint64_t id);

/*
 * The PID of the living keeper that has this job; -1 if its PID is not known or the directory cannot
 * be read, 0 if there is none. dir_fd: the journal's folder. Keepers must not call it: it opens their
 * files.
 */
pid_t keeper_job_holder(int dir_fd, uint64_t id);

/* Calls fn for each living keeper with a job. 0, or a negative errno value if the directory cannot be read. */
typedef void keeper_job_fn(void *context, const struct keeper_job *job);
int keeper_jobs_each(int dir_fd, keeper_job_fn *fn, void *context);

#endif
