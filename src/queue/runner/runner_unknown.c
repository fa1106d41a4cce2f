/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_unknown.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "queue/keeper/keeper_job.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_recover.h"
#include "queue/runner/runner_trouble.h"
#include "queue/schedule/scheduler.h"

struct runner_unknown {
	struct runner_unknown *next;
	uint64_t id;
	bool seen; /* during this check */
};

static struct runner_unknown *find(const struct runner *r, uint64_t id)
{
	struct runner_unknown *u = r->executing.unknown;
	while (u && u->id != id)
		u = u->next;
	return u;
}

/* Positions of the GPUs: from the keeper's file, else from the job's last `start`. */
static size_t find_gpus(const struct runner *r, const struct keeper_job *k, const struct job *job, int *ret)
{
	const struct job_attempt *a = job ? job->attempts : NULL;
	size_t n = 0, count = k->num_gpus || !a ? k->num_gpus : a->num_gpus;
	for (size_t i = 0; i < count && n < KEEPER_JOB_GPUS; i++) {
		int position = runner_gpu_position(r, k->num_gpus ? k->gpus[i] : a->gpus[i]);
		if (position >= 0)
			ret[n++] = position;
	}
	return n;
}

static int book(struct runner *r, const struct keeper_job *k, const struct job *job)
{
	int gpus[KEEPER_JOB_GPUS];
	struct runner_unknown *u = calloc(1, sizeof(*u));
	if (!u || scheduler_adopt_unknown(r->deciding.scheduler, k->id, job, gpus, find_gpus(r, k, job, gpus)) < 0) {
		free(u);
		return -ENOMEM;
	}
	*u = (struct runner_unknown){.next = r->executing.unknown, .id = k->id, .seen = true};
	r->executing.unknown = u;
	return 0;
}

static void on_keeper_job(void *context, const struct keeper_job *k)
{
	struct runner *r = context;
	const struct job *job = jobs_find(&r->following.jobs, k->id);
	const struct keeper_info *info = jobs_keeper(&r->following.jobs, k->keeper, strlen(k->keeper));
	struct runner_unknown *u = find(r, k->id);
	/* The journal has the job's state: it runs, is about to run, or has ended. */
	if ((job && job->state != JOB_UNKNOWN) || !runner_same_host(r, info))
		return;
	if (u) {
		u->seen = true;
	} else if (!scheduler_has(r->deciding.scheduler, k->id) && book(r, k, job) < 0) {
		r->executing.look_for_unknown = true;
		runner_pause(r, RUNNER_TROUBLE_START, -ENOMEM);
	}
}

static void let_go(struct runner *r, struct runner_unknown **at)
{
	struct runner_unknown *u = *at;
	*at = u->next;
	scheduler_end(r->deciding.scheduler, u->id);
	r->deciding.must_place = true;
	free(u);
}

void runner_unknown_check(struct runner *r)
{
	if (!r->executing.unknown && !r->executing.look_for_unknown)
		return;
	r->executing.look_for_unknown = false;
	for (struct runner_unknown *u = r->executing.unknown; u; u = u->next)
		u->seen = false;
	int e = keeper_jobs_each(r->following.journal->dir_fd, on_keeper_job, r);
	if (e < 0 && e != -ENOENT) {
		r->executing.look_for_unknown = true;
		runner_pause(r, RUNNER_TROUBLE_START, e);
		return;
	}
	for (struct runner_unknown **at = &r->executing.unknown; *at;)
		if ((*at)->seen)
			at = &(*at)->next;
		else
			let_go(r, at);
}

void runner_unknown_forget(struct runner *r, uint64_t id)
{
	for (struct runner_unknown **at = &r->executing.unknown; *at; at = &(*at)->next)
		if ((*at)->id == id) {
			let_go(r, at);
			return;
		}
}

void runner_unknown_forget_all(struct runner *r)
{
	while (r->executing.unknown)
		let_go(r, &r->executing.unknown);
}
