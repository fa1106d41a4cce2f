/* SPDX-License-Identifier: MIT */
/*
 * What the runner promises to its jobs, told to the other queues of the machine, and
 * what they have promised to theirs. Held by the runner: jobs that outlive it are
 * unclaimed until the next one takes over, and only what they use is seen meanwhile.
 */
#include "queue/runner_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"

void runner_claims_open(struct runner *r)
{
	struct gd_error err;
	if (r->simulated || r->gpus->count == 0)
		return;
	hash_format(hash_bytes(r->journal->path, strlen(r->journal->path)), r->queue_name);
	if (claims_open(NULL, &r->claims, &err) < 0)
		runner_say(r, "gpuq: %s; other queues on this machine are not seen\n", err.message);
}

void runner_claims_close(struct runner *r)
{
	claims_list_finish(&r->others);
	claims_close(r->claims);
	r->claims = NULL;
}

static bool fill_info(const struct runner *r, const struct running *run, struct claim_info *ret)
{
	*ret = (struct claim_info){.job = run->id,
		.promised_bytes = run->promised_bytes,
		.declared = run->declared,
		.settled = run->watch.settled};
	snprintf(ret->queue, sizeof(ret->queue), "%s", r->queue_name);
	const struct job *job = jobs_find(&r->jobs, run->id);
	if (job && job->state == JOB_RUNNING)
		ret->pid = job->attempts->pid;
	for (size_t i = 0; i < run->num_gpus && ret->num_gpus < CLAIM_MAX_GPUS; i++)
		if (claim_gpu_key(&r->gpus->gpus[run->gpus[i]], ret->gpus[ret->num_gpus]))
			ret->num_gpus++;
	return ret->num_gpus > 0;
}

void running_claim(struct running *run)
{
	struct claim_info info;
	struct runner *r = run->runner;
	if (!r->claims || run->foreign || run->ended || !fill_info(r, run, &info))
		return;
	if (run->claim)
		claim_update(run->claim, &info);
	else
		claims_announce(r->claims, &info, &run->claim);
}

void running_unclaim(struct running *run)
{
	claim_release(run->claim);
	run->claim = NULL;
}

void runner_claims_read(struct runner *r)
{
	if (!r->claims)
		return;
	claims_list_finish(&r->others);
	r->others = (struct claims_list){0};
	claims_list(r->claims, r->queue_name, &r->others);
}
