/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_begin.h"

#include "base/clock.h"
#include "base/date.h"
#include "base/loop.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_say.h"
#include "queue/runner/runner_waiting.h"
#include "queue/schedule/scheduler.h"

static void on_begin(void *context, uint32_t events)
{
	struct runner *r = context;
	(void)events;
	runner_begin_look(r);
}

int runner_begin_open(struct runner *r)
{
	(void)scheduler_set_time(r->deciding.scheduler, date_now_ms());
	return loop_add_timer(r->loop, on_begin, r, &r->deciding.begin);
}

void runner_begin_look(struct runner *r)
{
	for (struct job *next, *job = scheduler_set_time(r->deciding.scheduler, date_now_ms()); job; job = next) {
		next = job->next_dependent;
		job->next_dependent = NULL;
		runner_enqueue(r, job);
	}
}

/* Without this message, a user who waits for the run or a job would not know why nothing happens. */
static void say_next(struct runner *r, int64_t next_ms)
{
	char date[DATE_TEXT];
	size_t sleeping = scheduler_num_sleeping(r->deciding.scheduler);
	if (r->executing.num_running > 0 || scheduler_num_waiting(r->deciding.scheduler) > 0 ||
		r->deciding.said_begin_ms == next_ms || r->options.quiet)
		return;
	r->deciding.said_begin_ms = next_ms;
	date_format_local(next_ms, date_now_ms(), date);
	runner_say(r, "gpuq: waiting until %s, when %s; Ctrl-C leaves %s in the queue\n", date,
		sleeping == 1 ? "the job begins" : "the next job begins", sleeping == 1 ? "it" : "them");
}

void runner_begin_plan(struct runner *r)
{
	int64_t next = scheduler_next_begin(r->deciding.scheduler);
	if (next == 0) {
		loop_set_deadline(r->deciding.begin, 0);
		return;
	}
	int64_t left = next - date_now_ms();
	loop_set_deadline(r->deciding.begin, clock_now_ns() + (uint64_t)(left > 0 ? left : 0) * NS_PER_MS + 1);
	say_next(r, next);
}
