/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_claims.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_say.h"
#include "queue/runner/running.h"
#include "queue/schedule/claim_proof_file.h"
#include "queue/schedule/gpu_users.h"

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
	claim_proofs_finish(&r->proofs);
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
		if (claim_gpu_key(r->gpus->gpus[run->gpus[i]], ret->gpus[ret->num_gpus]))
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

/* Keeps the file for the next job: creating and removing one per job would cost more than a short job. */
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

static bool has_claim_of_others(const struct claims_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->claims[i].owner != geteuid())
			return true;
	return false;
}

/* Best effort: if the file cannot be used, this runner counts the time from its own start. */
static void update_proofs(struct runner *r)
{
	uint64_t now_ns = clock_now_ns();
	int fd;
	if (has_claim_of_others(&r->others) && claims_own_folder(r->claims, true, &fd) == 0)
		(void)claim_proofs_sync(&r->proofs, now_ns, r->machine.boot, fd);
	(void)claim_proofs_update(&r->proofs, now_ns, &r->others, r->gpus, gpu_users_foreign_pids(&r->machine));
}

void runner_claims_read(struct runner *r)
{
	if (!r->claims)
		return;
	claims_list_finish(&r->others);
	r->others = (struct claims_list){0};
	claims_list(r->claims, r->queue_name, &r->others);
	update_proofs(r);
}
