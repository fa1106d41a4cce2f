/* SPDX-License-Identifier: MIT */
/*
 * What the runner is about to promise to a job, told to the other queues of the machine, and
 * what they have promised to theirs. From the job's start on its keeper holds the claim.
 */
#include "queue/runner_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"

#define NO_GPU (-1)

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
	r->spare_claim = NULL;
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
	for (size_t i = 0; i < run->num_gpus && ret->num_gpus < CLAIM_MAX_GPUS; i++)
		if (claim_gpu_key(&r->gpus->gpus[run->gpus[i]], ret->gpus[ret->num_gpus]))
			ret->num_gpus++;
	return ret->num_gpus > 0;
}

void running_claim(struct running *run)
{
	struct claim_info info;
	struct runner *r = run->runner;
	if (!r->claims || run->claim || !fill_info(r, run, &info))
		return;
	run->claim = take_ptr(r->spare_claim);
	if (run->claim)
		claim_update(run->claim, &info);
	else
		claims_announce(r->claims, &info, &run->claim);
}

/* Its file is kept for the next one: to make and remove one for each job would cost more than the job. */
void running_unclaim(struct running *run)
{
	struct runner *r = run->runner;
	struct claim_info none = {0};
	if (!run->claim)
		return;
	snprintf(none.queue, sizeof(none.queue), "%s", r->queue_name);
	if (r->spare_claim || claim_update(run->claim, &none) < 0)
		claim_release(run->claim);
	else
		r->spare_claim = run->claim;
	run->claim = NULL;
}

int running_claim_text(const struct running *run, struct text *t)
{
	struct claim_info info;
	char text[CLAIM_TEXT_ROOM];
	if (!run->runner->claims || !fill_info(run->runner, run, &info))
		return 0;
	int size = claim_info_format(&info, text, sizeof(text));
	if (size > 0)
		text_append(t, text, (size_t)size);
	return size < 0 ? size : 0;
}

void runner_claims_read(struct runner *r)
{
	if (!r->claims)
		return;
	claims_list_finish(&r->others);
	r->others = (struct claims_list){0};
	claims_list(r->claims, r->queue_name, &r->others);
}

static int position_of(const struct runner *r, const char *key)
{
	char mine[CLAIM_KEY_ROOM];
	for (size_t g = 0; g < r->gpus->count; g++)
		if (claim_gpu_key(&r->gpus->gpus[g], mine) && strcmp(mine, key) == 0)
			return (int)g;
	return NO_GPU;
}

static bool descends_from(pid_t pid, pid_t root)
{
	struct process_info info;
	for (int depth = 0; depth < 64 && pid > 1; depth++) {
		if (pid == root)
			return true;
		if (process_info(pid, &info) < 0)
			return false;
		pid = info.ppid;
	}
	return false;
}

/* Its processes on our GPUs, so that what they use is not counted beside the promise. */
static size_t claim_pids(const struct runner *r, int64_t root, int64_t *pids, size_t room)
{
	size_t n = 0;
	for (size_t g = 0; root > 0 && g < r->gpus->count; g++)
		for (size_t i = 0; i < r->gpus->gpus[g].num_processes && n < room; i++)
			if (descends_from((pid_t)r->gpus->gpus[g].processes[i].pid, (pid_t)root))
				pids[n++] = r->gpus->gpus[g].processes[i].pid;
	return n;
}

int runner_claims_enter(const struct runner *r, struct claim_entry *entries, struct ledger_job *jobs)
{
	size_t n = 0;
	for (size_t i = 0; i < r->others.count; i++) {
		const struct claim_other *c = &r->others.claims[i];
		struct claim_entry *e = &entries[n];
		e->num_gpus = 0;
		for (size_t k = 0; k < c->info.num_gpus; k++) {
			int at = position_of(r, c->info.gpus[k]);
			if (at != NO_GPU)
				e->gpus[e->num_gpus++] = at;
		}
		if (e->num_gpus == 0)
			continue;
		e->num_pids = claim_pids(r, c->info.pid, e->pids, sizeof(e->pids) / sizeof(e->pids[0]));
		jobs[n++] = (struct ledger_job){.foreign = true,
			.declared = c->info.declared,
			.settled = c->info.settled,
			.promised_bytes = c->info.promised_bytes,
			.pid = c->holder,
			.gpus = e->gpus,
			.num_gpus = e->num_gpus,
			.pids = e->pids,
			.num_pids = e->num_pids};
	}
	return (int)n;
}
