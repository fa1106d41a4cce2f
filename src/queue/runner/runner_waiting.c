/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_waiting.h"

#include <errno.h>
#include <stdio.h>

#include "queue/journal/record.h"
#include "queue/runner/runner_private.h"
#include "queue/schedule/need.h"
#include "queue/schedule/pending.h"

/* The first unfinished job that this one waits for, or NULL. *ret_failed: a job that will never be completed. */
static struct job *unfinished(struct runner *r, const struct job *job, uint64_t *ret_failed, const char **ret_how)
{
	struct job *open = NULL;
	for (uint64_t i = 1; job->after && i <= job->after[0]; i++) {
		struct job *dep = jobs_find(&r->jobs, job->after[i]);
		if (!dep || dep->state == JOB_FAILED || dep->state == JOB_CANCELLED) {
			*ret_failed = job->after[i];
			*ret_how = !dep ? "does not exist" : dep->state == JOB_FAILED ? "failed" : "was cancelled";
			return NULL;
		}
		if (dep->state != JOB_COMPLETED && !open)
			open = dep;
	}
	return open;
}

void runner_enqueue(struct runner *r, struct job *job)
{
	uint64_t failed = 0;
	const char *how = NULL;
	struct placement_need need;
	struct job *dep = unfinished(r, job, &failed, &how);
	if (failed) {
		char words[96];
		snprintf(words, sizeof(words), "job %llu, which it waits for, %s", (unsigned long long)failed, how);
		record_write_fail(&r->to_append, job->id, words);
		return;
	}
	if (dep) {
		job->next_dependent = dep->dependents;
		job->dependent_link = &dep->dependents;
		if (job->next_dependent)
			job->next_dependent->dependent_link = &job->next_dependent;
		dep->dependents = job;
		job->blocked = true;
		r->num_blocked++;
		return;
	}
	job_need(job, r->options.min_free_mem_mb, r->gpus, &need);
	job->wait = (struct pending_job){.order = job->id, .priority = job->priority};
	if (pending_add(r->pending, &job->wait, &need) < 0)
		r->fatal = -ENOMEM;
	r->must_place = true;
}

void runner_dequeue(struct runner *r, struct job *job)
{
	if (job->wait.position)
		pending_remove(r->pending, &job->wait);
	if (!job->blocked)
		return;
	job->blocked = false;
	r->num_blocked--;
	*job->dependent_link = job->next_dependent;
	if (job->next_dependent)
		job->next_dependent->dependent_link = job->dependent_link;
}
