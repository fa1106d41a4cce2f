/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_claims.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_say.h"
#include "queue/runner/runner_trouble.h"
#include "queue/runner/running.h"
#include "queue/schedule/claim_entries.h"
#include "queue/schedule/claim_proof_file.h"
#include "queue/schedule/scheduler.h"

void runner_claims_open(struct runner *r)
{
	struct gd_error err;
	if (r->watching.simulated || r->watching.gpus->count == 0)
		return;
	hash_format(hash_bytes(r->following.journal->path, strlen(r->following.journal->path)), r->watching.queue_name);
	if (claims_open(NULL, &r->watching.claims, &err) < 0)
		runner_say(r, "gpuq: %s; other queues on this machine are not seen\n", err.message);
}

void runner_claims_close(struct runner *r)
{
	claim_proofs_finish(&r->watching.proofs);
	r->watching.spare_claim = NULL;
	claims_close(r->watching.claims);
	r->watching.claims = NULL;
}

static bool fill_info(const struct runner *r, const struct running *run, struct claim_info *ret)
{
	*ret = (struct claim_info){.job = run->id,
		.declared = run->need.declared,
		.exclusive = run->need.alone,
		.settled = scheduler_is_settled(r->deciding.scheduler, run->id)};
	for (size_t i = 0; i < run->num_gpus; i++) {
		uint64_t bytes = ledger_bytes_on(
			r->watching.gpus->gpus[run->gpus[i]], run->need.memory_bytes, run->need.by_card);
		ret->promised_bytes = bytes > ret->promised_bytes ? bytes : ret->promised_bytes;
	}
	snprintf(ret->queue, sizeof(ret->queue), "%s", r->watching.queue_name);
	for (size_t i = 0; i < run->num_gpus && ret->num_gpus < CLAIM_MAX_GPUS; i++)
		if (claim_gpu_key(r->watching.gpus->gpus[run->gpus[i]], ret->gpus[ret->num_gpus]))
			ret->num_gpus++;
	return ret->num_gpus > 0;
}

void running_claim(struct running *run)
{
	struct claim_info info;
	struct runner *r = run->runner;
	if (!r->watching.claims || run->claim || !fill_info(r, run, &info))
		return;
	run->claim = take_ptr(r->watching.spare_claim);
	if (run->claim)
		claim_update(run->claim, &info);
	else
		claims_announce(r->watching.claims, &info, &run->claim);
}

/* Keeps the file for the next job: creating and removing a file per job would cost more than a short job. */
void running_unclaim(struct running *run)
{
	struct runner *r = run->runner;
	struct claim_info none = {0};
	if (!run->claim)
		return;
	snprintf(none.queue, sizeof(none.queue), "%s", r->watching.queue_name);
	if (r->watching.spare_claim || claim_update(run->claim, &none) < 0)
		claim_release(run->claim);
	else
		r->watching.spare_claim = run->claim;
	run->claim = NULL;
}

int running_claim_text(const struct running *run, struct text *t)
{
	struct claim_info info;
	char text[CLAIM_TEXT_ROOM];
	if (!run->runner->watching.claims || !fill_info(run->runner, run, &info))
		return 0;
	int size = claim_info_format(&info, text, sizeof(text));
	if (size > 0)
		text_append(t, text, (size_t)size);
	return size < 0 ? size : 0;
}

int runner_claims_read(struct runner *r)
{
	if (!r->watching.claims)
		return 0;
	cleanup_(claims_list_finish) struct claims_list others = {0};
	claims_list(r->watching.claims, r->watching.queue_name, &others);
	(void)claim_proofs_update_shared(
		&r->watching.proofs, clock_wall_ns(), r->watching.claims, &others, r->watching.gpus, &r->machine);
	cleanup_(freep) struct ledger_job *jobs = calloc(others.count + 1, sizeof(*jobs));
	cleanup_(freep) struct claim_entry *entries = calloc(others.count + 1, sizeof(*entries));
	if (jobs && entries &&
		scheduler_set_claims(r->deciding.scheduler, jobs,
			claim_entries(&others, r->watching.gpus, &r->watching.proofs, entries, jobs)) == 0)
		return 0;
	runner_pause(r, RUNNER_TROUBLE_START, -ENOMEM);
	return -ENOMEM;
}
