/* SPDX-License-Identifier: MIT */
/* The periods in which a job was held, or had ended until a `retry`: it did not wait for a GPU then. */
#include <errno.h>

#include "queue/journal/jobs_private.h"

static void end(struct job_delay *newest, int64_t to_ms)
{
	if (newest && newest->to_ms == 0)
		newest->to_ms = to_ms > newest->from_ms ? to_ms : newest->from_ms;
}

static int begin(struct jobs *js, struct job_delay **newest, int64_t from_ms, bool held)
{
	struct job_delay *d = arena_alloc(&js->arena, sizeof(*d));
	if (!d)
		return -ENOMEM;
	end(*newest, from_ms);
	*d = (struct job_delay){.earlier = *newest, .from_ms = from_ms, .held = held};
	*newest = d;
	return 0;
}

int jobs_begin_delay(struct jobs *js, struct job *job, int64_t from_ms, bool held)
{
	return begin(js, &job->delays, from_ms, held);
}

void jobs_end_delay(struct job *job, int64_t to_ms)
{
	end(job->delays, to_ms);
}

int jobs_pause(struct jobs *js, bool paused, int64_t time_ms)
{
	int r = paused && !js->paused ? begin(js, &js->pauses, time_ms, true) : 0;
	if (!paused)
		end(js->pauses, time_ms);
	js->paused = paused;
	return r;
}

int jobs_delay_until_retry(struct jobs *js, struct job *job, int64_t to_ms)
{
	const struct job_attempt *a = job->attempts;
	bool lasts = job->delays && job->delays->to_ms == 0;
	/* Most jobs are never retried, so the period is created only now, from the end of the attempt. */
	int r = lasts ? 0 : jobs_begin_delay(js, job, a && a->end_ms ? a->end_ms : job->submit_ms, false);
	jobs_end_delay(job, to_ms);
	return r;
}
