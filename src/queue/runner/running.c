/* SPDX-License-Identifier: MIT */
#include "queue/runner/running.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "queue/runner/runner_claims.h"
#include "queue/runner/runner_energy.h"
#include "queue/runner/runner_keeper.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_say.h"
#include "queue/schedule/scheduler.h"

struct running *running_add(struct runner *r, uint64_t id)
{
	struct running *run = calloc(1, sizeof(*run));
	if (!run)
		return NULL;
	*run = (struct running){.runner = r, .next = r->executing.running, .id = id};
	r->executing.running = run;
	return run;
}

int running_set_start(struct running *run, const struct scheduler_start *start)
{
	run->gpus = calloc(start->num_gpus + 1, sizeof(*run->gpus));
	if (!run->gpus)
		return -ENOMEM;
	if (start->num_gpus)
		memcpy(run->gpus, start->gpus, start->num_gpus * sizeof(*run->gpus));
	run->num_gpus = start->num_gpus;
	run->need = start->need;
	runner_energy_started(run);
	return 0;
}

void running_remove(struct running *run)
{
	struct runner *r = run->runner;
	struct job *job = jobs_find(&r->following.jobs, run->id);
	/* The job's resources may meanwhile belong to another keeper. */
	if (!job || !job->running || job->running == run)
		scheduler_withdraw(r->deciding.scheduler, run->id);
	for (struct running **p = &r->executing.running; *p; p = &(*p)->next)
		if (*p == run) {
			*p = run->next;
			break;
		}
	if (job && job->running == run)
		job->running = NULL;
	if (run->keeper && run->keeper->running == run)
		run->keeper->running = NULL;
	running_unclaim(run);
	energy_meter_finish(&run->energy);
	idle_watch_finish(&run->idle);
	free(run->gpus);
	free(run);
}

void running_count(struct running *run, int change)
{
	struct runner *r = run->runner;
	if (run->foreign)
		return;
	if (run->stuck) {
		r->executing.num_stuck += (size_t)change;
		return;
	}
	r->executing.num_running += (size_t)change;
}

void running_set_stuck(struct running *run, const struct job *job)
{
	if (run->stuck)
		return;
	running_count(run, -1);
	run->stuck = true;
	running_count(run, 1);
	scheduler_set_stuck(run->runner->deciding.scheduler, run->id);
	run->runner->deciding.must_place = true;
	if (run->num_gpus > 0)
		runner_say(run->runner,
			"gpuq: job %llu (PID %d) " REASON_STUCK "; its GPU takes no other job until it has ended\n",
			(unsigned long long)run->id, (int)job->attempts->pid);
}

static void send_order(struct running *run, enum keeper_order_kind kind)
{
	if (run->keeper)
		(void)runner_keeper_send(run->keeper, &(struct keeper_order){.kind = kind, .id = run->id}, NULL);
}

void running_cancel(struct running *run, bool at_once)
{
	send_order(run, at_once ? KEEPER_ORDER_KILL : KEEPER_ORDER_CANCEL);
}

void running_interrupt(struct running *run)
{
	send_order(run, KEEPER_ORDER_INTERRUPT);
}
