/* SPDX-License-Identifier: MIT */
/* Jobs that would not be over before the allocation of the runner ends. Time only passes, so they never start in it. */
#include <stdlib.h>

#include "base/units.h"
#include "queue/schedule/run_times.h"
#include "queue/schedule/scheduler_private.h"

/* What similar commands took, at most the job's timeout; otherwise the timeout; 0: neither is known. */
static int64_t expected_ms(struct scheduler *s, const struct job *job)
{
	int64_t timeout_ms = job->wish->timeout_ms >= 0 ? job->wish->timeout_ms : s->settings.timeout_ms;
	if (!s->times && (s->times = run_times_create()))
		for (size_t i = 0; i < s->jobs->count; i++)
			if (s->jobs->by_id[i]->attempts)
				run_times_add_job(s->times, s->jobs->by_id[i]);
	struct duration_estimate e = {0};
	if (s->times)
		e = run_times_estimate(s->times, job);
	int64_t took_ms = (int64_t)e.high_ms;
	return e.samples == 0 || (timeout_ms > 0 && timeout_ms < took_ms) ? timeout_ms : took_ms;
}

bool scheduler_is_late(struct scheduler *s, const struct job *job)
{
	if (!s->settings.end_ms || job->state != JOB_PENDING || scheduler_has(s, job->id))
		return false;
	int64_t ms = expected_ms(s, job);
	return ms > 0 && s->wall_ms + ms > s->settings.end_ms;
}

void scheduler_set_aside(struct scheduler *s, struct job *job)
{
	scheduler_unlist(s, job);
	s->pass_stale = false; /* the pass goes on */
	scheduler_link(&s->late, job);
	job->late = true;
	s->num_late++;
}

void scheduler_unset_aside(struct scheduler *s, struct job *job)
{
	scheduler_unlink(job);
	job->late = false;
	s->num_late--;
}

void scheduler_forget_end(struct scheduler *s)
{
	s->settings.end_ms = 0;
}

void scheduler_late_completed(struct scheduler *s, const struct job *job)
{
	if (s->times && job && job->attempts && job->attempts->state == JOB_COMPLETED)
		run_times_add(s->times, job, job->attempts->duration_ms);
}

void scheduler_say_late(struct text *t, const struct scheduler *s)
{
	char left[UNITS_ROOM];
	int64_t ms = s->settings.end_ms - s->wall_ms;
	text_appendf(t, "does not fit into the remaining time of %s (%s)", s->settings.end_whose,
		units_format_duration(ms > 0 ? (uint64_t)ms : 0, left));
}
