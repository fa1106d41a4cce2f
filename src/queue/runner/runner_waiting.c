/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_waiting.h"

#include "queue/journal/record.h"
#include "queue/runner/runner_hooks.h"
#include "queue/runner/runner_leases.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_trouble.h"
#include "queue/schedule/scheduler.h"

void runner_enqueue_later(struct runner *r, int code)
{
	r->deciding.incomplete = true;
	runner_pause(r, RUNNER_TROUBLE_START, code);
}

void runner_enqueue_missing(struct runner *r)
{
	const struct jobs *js = &r->following.jobs;
	r->deciding.incomplete = false;
	for (size_t i = 0; i < js->count && !r->deciding.incomplete; i++)
		if (js->by_id[i]->state == JOB_PENDING && !js->by_id[i]->running)
			runner_enqueue(r, js->by_id[i]);
}

void runner_enqueue(struct runner *r, struct job *job)
{
	char words[SCHEDULER_WORDS];
	if (job->lease && !runner_lease_may_wait(r, job))
		return;
	int e = scheduler_add(r->deciding.scheduler, job, words);
	if (e < 0)
		runner_enqueue_later(r, e);
	else if (e > 0)
		record_write_fail(&r->following.to_append, job->id, words, runner_hook_to_record(r, job));
	else
		r->deciding.must_place = true;
}

void runner_dequeue(struct runner *r, struct job *job)
{
	scheduler_remove(r->deciding.scheduler, job);
}

void runner_release(struct runner *r, struct job *job)
{
	for (struct job *next, *dependent = scheduler_release(r->deciding.scheduler, job); dependent;
		dependent = next) {
		next = dependent->next_dependent;
		runner_enqueue(r, dependent);
	}
}
