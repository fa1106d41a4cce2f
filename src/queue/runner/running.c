/* SPDX-License-Identifier: MIT */
#include "queue/runner/running.h"

#include <stdlib.h>

#include "base/loop.h"
#include "queue/keeper/keeper.h"
#include "queue/runner/runner_claims.h"
#include "queue/runner/runner_keeper.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_say.h"

struct running *running_add(struct runner *r, uint64_t id)
{
	struct running *run = calloc(1, sizeof(*run));
	if (!run)
		return NULL;
	*run = (struct running){.runner = r, .next = r->running, .id = id, .watched = PIDREF_NONE};
	r->running = run;
	return run;
}

void running_remove(struct running *run)
{
	struct runner *r = run->runner;
	struct job *job = jobs_find(&r->jobs, run->id);
	for (struct running **p = &r->running; *p; p = &(*p)->next)
		if (*p == run) {
			*p = run->next;
			break;
		}
	if (job && job->running == run)
		job->running = NULL;
	if (run->keeper)
		run->keeper->running = NULL;
	loop_remove(run->source);
	pidref_close(&run->watched);
	running_unclaim(run);
	free(run->gpus);
	free(run);
}

void running_count(struct running *run, int change)
{
	struct runner *r = run->runner;
	if (run->foreign)
		return;
	if (run->stuck) {
		r->num_stuck += (size_t)change;
		return;
	}
	r->num_running += (size_t)change;
	if (run->cpu_only)
		r->num_cpu_jobs += (size_t)change;
}

void running_set_stuck(struct running *run, const struct job *job)
{
	if (run->stuck || run->ended)
		return;
	running_count(run, -1);
	run->stuck = true;
	running_count(run, 1);
	job_stuck_words(run->id, run->stuck_words);
	run->runner->must_place = true;
	if (run->num_gpus > 0)
		runner_say(run->runner,
			"gpuq: job %llu (PID %d) " REASON_STUCK "; its GPU takes no other until it is gone\n",
			(unsigned long long)run->id, (int)job->attempts->pid);
}

void running_cancel(struct running *run, bool at_once)
{
	struct job *job = jobs_find(&run->runner->jobs, run->id);
	if (run->keeper)
		runner_keeper_send(run->keeper,
			&(struct keeper_order){
				.kind = at_once ? KEEPER_ORDER_KILL : KEEPER_ORDER_CANCEL, .id = run->id},
			NULL);
	else if (job && job->keeper && !run->foreign)
		keeper_signal_cancel(run->runner->journal, job->keeper->name, run->id, at_once);
}
