/* SPDX-License-Identifier: MIT */
#include "cli/run_own_jobs.h"

#include <errno.h>
#include <stdlib.h>

#include "queue/input/id_list.h"

static bool is_over(unsigned char state)
{
	return state == JOB_COMPLETED || state == JOB_FAILED || state == JOB_CANCELLED;
}

int run_own_jobs_init(struct run_own_jobs *o, const struct id_list *ids)
{
	unsigned char *states = calloc(ids->count + 1, 1);
	if (!states)
		return -ENOMEM;
	*o = (struct run_own_jobs){.ids = ids, .states = states, .open = ids->count};
	return 0;
}

void run_own_jobs_finish(struct run_own_jobs *o)
{
	free(o->states);
	*o = (struct run_own_jobs){0};
}

static void on_change(void *context, struct job *job, int old)
{
	struct run_own_jobs *o = context;
	size_t i = id_list_find(o->ids, job->id);
	(void)old;
	if (i == SIZE_MAX)
		return;
	o->open += is_over(o->states[i]);
	o->states[i] = job->state;
	o->open -= is_over(o->states[i]);
}

void run_own_jobs_follow(struct run_own_jobs *o, struct follow *f)
{
	for (size_t i = 0; i < o->ids->count; i++) {
		struct job *job = jobs_find(&f->jobs, o->ids->ids[i]);
		if (job)
			on_change(o, job, -1);
	}
	f->jobs.on_change = on_change;
	f->jobs.context = o;
}

bool run_own_jobs_all_completed(const struct run_own_jobs *o)
{
	for (size_t i = 0; i < o->ids->count; i++)
		if (o->states[i] != JOB_COMPLETED)
			return false;
	return true;
}
