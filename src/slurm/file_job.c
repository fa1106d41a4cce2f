/* SPDX-License-Identifier: MIT */
#include "slurm/file_job.h"

#include <errno.h>
#include <stdio.h>

void file_job_init(struct file_job *j, uint64_t id)
{
	*j = (struct file_job){.id = id};
}

void file_job_finish(struct file_job *j)
{
	if (j->open)
		follow_close(&j->follow);
	j->open = false;
}

int file_job_update(struct file_job *j, const char *path, struct gd_error *err)
{
	if (j->open)
		return follow_update(&j->follow, err);
	int r = follow_open(path, false, &j->follow, err);
	j->open = r == 0;
	return r == -ENOENT ? 0 : r;
}

static const struct job *find(const struct file_job *j)
{
	return j->open ? jobs_find(&j->follow.jobs, j->id) : NULL;
}

bool file_job_has_ended(const struct file_job *j, uint32_t attempt)
{
	const struct job *job = find(j);
	for (const struct job_attempt *a = job ? job->attempts : NULL; a; a = a->earlier) {
		if (a->attempt == attempt)
			return a->state == JOB_COMPLETED || a->state == JOB_FAILED || a->state == JOB_CANCELLED;
		if (a->attempt < attempt)
			return false; /* its start has not been read yet */
	}
	return job && job->attempts;
}

bool file_job_is_over(const struct file_job *j, char *words, size_t room)
{
	const struct job *job = find(j);
	if (!job || job->state == JOB_PENDING || job->state == JOB_RUNNING || job->state == JOB_UNKNOWN)
		return false;
	const struct job_attempt *a = job->attempts;
	const char *reason = a && a->reason ? a->reason : job->reason;
	if (job->state == JOB_HELD)
		snprintf(words, room, "its job was lost several times together with its node");
	else if (reason)
		snprintf(words, room, "its job ended (%s): %s", job_state_name((enum job_state)job->state), reason);
	else if (a && a->exit_code > 0)
		snprintf(words, room, "its job ended (%s) with exit code %d",
			job_state_name((enum job_state)job->state), a->exit_code);
	else
		snprintf(words, room, "its job ended (%s)", job_state_name((enum job_state)job->state));
	return true;
}
