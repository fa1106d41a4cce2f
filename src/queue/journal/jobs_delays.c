/* SPDX-License-Identifier: MIT */
/* When a job was held, and when it was over until somebody asked for another attempt: that is not waiting for a GPU. */
#include <errno.h>

#include "queue/journal/jobs_private.h"

int jobs_begin_delay(struct jobs *js, struct job *job, int64_t from_ms, bool held)
{
	struct job_delay *d = arena_alloc(&js->arena, sizeof(*d));
	if (!d)
		return -ENOMEM;
	jobs_end_delay(job, from_ms);
	*d = (struct job_delay){.earlier = job->delays, .from_ms = from_ms, .held = held};
	job->delays = d;
	return 0;
}

void jobs_end_delay(struct job *job, int64_t to_ms)
{
	struct job_delay *d = job->delays;
	if (d && d->to_ms == 0)
		d->to_ms = to_ms > d->from_ms ? to_ms : d->from_ms;
}

int jobs_delay_until_retry(struct jobs *js, struct job *job, int64_t to_ms)
{
	const struct job_attempt *a = job->attempts;
	bool lasts = job->delays && job->delays->to_ms == 0;
	/* Most jobs are never tried again: what is known from the attempt is not kept twice before. */
	int r = lasts ? 0 : jobs_begin_delay(js, job, a && a->end_ms ? a->end_ms : job->submit_ms, false);
	jobs_end_delay(job, to_ms);
	return r;
}
