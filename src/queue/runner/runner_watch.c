/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_watch.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/loop.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/running.h"
#include "queue/schedule/scheduler.h"

static void look(struct runner *r, bool over)
{
	const struct runner_watch *w = r->watch;
	size_t room = 0, n = 0;
	if (!w || !w->look)
		return;
	for (struct running *run = r->executing.running; run; run = run->next)
		room++;
	cleanup_(freep) struct runner_job *jobs = calloc(room + 1, sizeof(*jobs));
	if (!jobs)
		return;
	for (struct running *run = r->executing.running; run; run = run->next) {
		const struct job *job = jobs_find(&r->following.jobs, run->id);
		if (run->foreign || !job)
			continue;
		jobs[n++] = (struct runner_job){job, run->gpus, run->num_gpus, run->started};
	}
	struct runner_now now = {.gpus = r->watching.gpus,
		.running = jobs,
		.num_running = n,
		.waiting = scheduler_num_waiting(r->deciding.scheduler) + scheduler_num_blocked(r->deciding.scheduler),
		.result = &r->result,
		.interrupts = r->interrupts,
		.over = over};
	w->look(w->context, &now);
}

static void on_look(void *context, uint32_t events)
{
	struct runner *r = context;
	(void)events;
	look(r, false);
	loop_set_deadline(r->look, clock_now_ns() + (uint64_t)r->watch->period_ms * NS_PER_MS);
}

void runner_set_watch(struct runner *r, const struct runner_watch *watch)
{
	r->watch = watch;
}

int runner_watch_begin(struct runner *r)
{
	if (!r->watch || !r->watch->look)
		return 0;
	int e = loop_add_timer(r->loop, on_look, r, &r->look);
	if (e == 0)
		on_look(r, 0);
	return e;
}

bool runner_watch_changed(struct runner *r, const struct job *job, int old)
{
	if (!r->watch || !r->watch->changed)
		return false;
	r->watch->changed(r->watch->context, job, old);
	return true;
}

void runner_watch_end(struct runner *r)
{
	look(r, true);
}
