/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_left.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_say.h"
#include "queue/schedule/scheduler.h"

/* At most this many jobs are named. */
#define MOST_TOLD 5

void runner_say_left_pending(struct runner *r)
{
	const struct jobs *js = &r->following.jobs;
	struct scheduler_verdict v;
	size_t told = 0;
	for (size_t i = 0; i < js->count && told < MOST_TOLD; i++) {
		cleanup_(text_finish) struct text words = {0};
		const struct job *job = js->by_id[i];
		if (job->state != JOB_PENDING || scheduler_verdict(r->deciding.scheduler, job, &v) < 0 ||
			(v.answer != SCHEDULER_NEVER && v.answer != SCHEDULER_LATE))
			continue;
		scheduler_verdict_brief(&words, r->deciding.scheduler, &v);
		if (!text_error(&words))
			runner_say(r, "gpuq: job %llu %s\n", (unsigned long long)job->id, text_string(&words));
		told++;
	}
	runner_say(r, "gpuq: %llu job%s left pending; 'gpuq why ID' explains why\n",
		(unsigned long long)r->result.left_pending, r->result.left_pending == 1 ? "" : "s");
}

void runner_say_held(struct runner *r)
{
	const struct jobs *js = &r->following.jobs;
	cleanup_(text_finish) struct text ids = {0};
	size_t told = 0;
	for (size_t i = 0; js->counts[JOB_HELD] && i < js->count && told <= MOST_TOLD; i++)
		if (js->by_id[i]->state == JOB_HELD && told++ < MOST_TOLD)
			text_appendf(&ids, "%s%llu", told > 1 ? ", " : "", (unsigned long long)js->by_id[i]->id);
	if (told > 0 && !text_error(&ids))
		runner_say(r, "gpuq: %llu %s held: %s%s; use 'gpuq release' to release %s\n",
			(unsigned long long)js->counts[JOB_HELD], js->counts[JOB_HELD] == 1 ? "job is" : "jobs are",
			text_string(&ids), told > MOST_TOLD ? "…" : "", js->counts[JOB_HELD] == 1 ? "it" : "them");
}
