/* SPDX-License-Identifier: MIT */
#include "cli/run_own_jobs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "cli/say.h"
#include "queue/input/id_list.h"
#include "queue/journal/archive.h"

static bool is_over(unsigned char state)
{
	/* Unknown and held jobs are not started: waiting for them might never end. */
	return state == JOB_COMPLETED || state == JOB_FAILED || state == JOB_CANCELLED || state == JOB_UNKNOWN ||
	       state == JOB_HELD;
}

int run_own_jobs_init(struct run_own_jobs *o, const struct id_list *ids)
{
	unsigned char *states = calloc(ids->count + 1, 1);
	uint32_t *told = calloc(ids->count + 1, sizeof(*told));
	if (!states || !told) {
		free(states);
		free(told);
		return -ENOMEM;
	}
	*o = (struct run_own_jobs){.ids = ids, .states = states, .open = ids->count, .told = told};
	return 0;
}

void run_own_jobs_finish(struct run_own_jobs *o)
{
	free(o->states);
	free(o->told);
	*o = (struct run_own_jobs){0};
}

/* Grows with each reported change. Replayed changes do not exceed the last reported value. */
static uint32_t progress_of(const struct job *job)
{
	uint32_t attempts = job->attempts ? job->attempts->attempt : 0;
	return attempts * 3 + (job->state == JOB_RUNNING ? 0 : job_is_final(job) ? 2 : 1);
}

static void tell(struct run_own_jobs *o, size_t i, const struct job *job)
{
	uint32_t progress = progress_of(job);
	/* 1: the job is waiting, and nothing has happened. */
	if (!o->changed || progress <= o->told[i] || progress <= 1 || job->state == JOB_HELD)
		return;
	o->told[i] = progress;
	o->changed(o->context, job, job->state == JOB_RUNNING || !job->attempts ? JOB_PENDING : JOB_RUNNING);
}

void run_own_jobs_watch(struct run_own_jobs *o,
	void (*changed)(void *context, const struct job *job, enum job_state old), void *context)
{
	o->changed = changed;
	o->context = context;
}

uint64_t run_own_jobs_count(const struct run_own_jobs *o, enum job_state state)
{
	uint64_t n = 0;
	for (size_t i = 0; i < o->ids->count; i++)
		n += o->states[i] == state;
	return n;
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
	tell(o, i, job);
}

static bool is_pruned(const struct run_own_jobs *o, const struct follow *f, size_t i)
{
	return !is_over(o->states[i]) && !jobs_find(&f->jobs, o->ids->ids[i]);
}

/* The archive was removed: the end of the job will never be seen. */
static void give_up(struct run_own_jobs *o, size_t i)
{
	say("job %" PRIu64 " was pruned before its end was read, and is not in the archive", o->ids->ids[i]);
	o->states[i] = JOB_FAILED;
	o->open--;
}

static int find_pruned(struct run_own_jobs *o, const struct follow *f, struct gd_error *err)
{
	struct jobs archived;
	size_t i = 0;
	while (i < o->ids->count && !is_pruned(o, f, i))
		i++;
	if (i == o->ids->count)
		return 0;
	int r = archive_read(f->path, f->reader.checked, &archived, err);
	if (r < 0)
		return r;
	for (; i < o->ids->count; i++) {
		struct job *job = is_pruned(o, f, i) ? jobs_find(&archived, o->ids->ids[i]) : NULL;
		if (job)
			on_change(o, job, -1);
		else if (is_pruned(o, f, i))
			give_up(o, i);
	}
	jobs_finish(&archived);
	return 0;
}

int run_own_jobs_update(struct run_own_jobs *o, const struct follow *f, struct gd_error *err)
{
	return f->reset ? find_pruned(o, f, err) : 0;
}

int run_own_jobs_follow(struct run_own_jobs *o, struct follow *f, struct gd_error *err)
{
	for (size_t i = 0; i < o->ids->count; i++) {
		struct job *job = jobs_find(&f->jobs, o->ids->ids[i]);
		if (job)
			on_change(o, job, -1);
	}
	f->jobs.on_change = on_change;
	f->jobs.context = o;
	return find_pruned(o, f, err);
}

bool run_own_jobs_all_completed(const struct run_own_jobs *o)
{
	for (size_t i = 0; i < o->ids->count; i++)
		if (o->states[i] != JOB_COMPLETED)
			return false;
	return true;
}

uint64_t run_own_jobs_unknown(const struct run_own_jobs *o, uint64_t *ret_first)
{
	uint64_t count = 0;
	for (size_t i = 0; i < o->ids->count; i++)
		if (o->states[i] == JOB_UNKNOWN && count++ == 0)
			*ret_first = o->ids->ids[i];
	return count;
}
