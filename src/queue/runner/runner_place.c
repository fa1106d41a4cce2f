/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/loop.h"
#include "queue/runner/order_payload.h"
#include "queue/runner/runner_claims.h"
#include "queue/runner/runner_follow.h"
#include "queue/runner/runner_keeper.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_trouble.h"
#include "queue/runner/running.h"
#include "queue/schedule/claim_entries.h"
#include "queue/schedule/pending.h"

static void note_quarantines(struct runner *r)
{
	for (size_t g = 0; g < r->gpus->count; g++)
		r->notes[g].quarantined = false;
	for (const struct running *run = r->running; run; run = run->next)
		for (size_t i = 0; run->stuck && !run->ended && i < run->num_gpus; i++) {
			r->notes[run->gpus[i]].quarantined = true;
			r->notes[run->gpus[i]].why = run->stuck_words;
		}
}

/* but: a job that is left out, or NULL. */
static int build_ledger(struct runner *r, const struct running *but)
{
	size_t n = 0;
	for (struct running *run = r->running; run; run = run->next)
		n++;
	cleanup_(freep) struct ledger_job *jobs = calloc(n + r->others.count + 1, sizeof(*jobs));
	cleanup_(freep) struct claim_entry *entries = calloc(r->others.count + 1, sizeof(*entries));
	if (!jobs || !entries)
		return -ENOMEM;
	note_quarantines(r);
	n = 0;
	for (struct running *run = r->running; run; run = run->next)
		if (!run->foreign && run != but)
			jobs[n++] = (struct ledger_job){.id = run->id,
				.ended = run->ended,
				.declared = run->declared,
				.settled = run->watch.settled,
				.promised_bytes = run->promised_bytes,
				.gpus = run->gpus,
				.num_gpus = run->num_gpus,
				.pids = run->user.pids,
				.num_pids = run->user.num_pids};
	n += claim_entries(&r->others, r->gpus, &r->proofs, entries, jobs + n);
	struct ledger_input in = {.gpus = r->gpus->gpus,
		.notes = r->notes,
		.num_gpus = r->gpus->count,
		.jobs = jobs,
		.num_jobs = n,
		.jobs_per_gpu = (unsigned)r->options.jobs_per_gpu,
		.foreign_pids = gpu_users_foreign_pids(&r->machine)};
	return ledger_build(&r->ledger, &in);
}

/*
 * Announces, and looks again: of two queues that announce at once at least one sees
 * the other, and backs off. True if there is still room.
 */
static bool claim_room(struct runner *r, struct running *run, const struct placement_need *need)
{
	if (!r->claims || run->num_gpus == 0)
		return true;
	running_claim(run);
	runner_claims_read(r);
	cleanup_(freep) struct placement_verdict *verdicts = calloc(r->gpus->count + 1, sizeof(*verdicts));
	cleanup_(freep) int *gpus = calloc(need->num_gpus + 1, sizeof(*gpus));
	if (!verdicts || !gpus || build_ledger(r, run) < 0)
		return false;
	bool room = placement_choose(&r->ledger, run->id, need, NULL, gpus, verdicts) == 0;
	for (size_t i = 0; room && i < run->num_gpus; i++)
		room = verdicts[run->gpus[i]].reason == PLACEMENT_FITS;
	if (room) {
		r->back_offs = 0;
		return true;
	}
	r->pause_until_ns = clock_now_ns() + claims_backoff_ms(r->back_offs++) * NS_PER_MS;
	loop_set_deadline(r->tick, r->pause_until_ns + NS_PER_MS);
	return false;
}

/* False: nothing more can be started now. */
static bool hand_out(struct runner *r, struct job *job, const int *gpus, const struct placement_need *need)
{
	struct runner_keeper *k = runner_keeper_get(r);
	struct running *run = k ? running_add(r, job->id) : NULL;
	if (!run)
		return false;
	run->gpus = calloc(need->num_gpus + 1, sizeof(int));
	cleanup_(text_finish) struct text payload = {0};
	struct keeper_order o = {.kind = KEEPER_ORDER_RUN,
		.id = job->id,
		.attempt = job->num_attempts + 1,
		.fence = r->fence,
		.timeout_ms = job->wish->timeout_ms >= 0 ? job->wish->timeout_ms : r->options.timeout_ms,
		.grace_ms = r->options.grace_ms,
		.retries = job->wish->has_retries ? 0 : r->options.retries,
		.max_log_bytes = r->options.max_log_bytes,
		.log_access = r->options.log_access,
		.log_accepted = job->wish->log_dir || r->options.log_accepted};
	struct gd_error err = {0};
	int e = run->gpus ? 0 : -ENOMEM;
	if (e == 0) {
		memcpy(run->gpus, gpus, need->num_gpus * sizeof(int));
		run->num_gpus = need->num_gpus;
		run->cpu_only = need->num_gpus == 0;
		run->promised_bytes = need->memory_bytes;
		run->declared = need->declared;
		e = order_payload_write_job(r, job, run, &o, &payload, &err);
	}
	if (e < 0)
		runner_pause(r, RUNNER_TROUBLE_START, e);
	if (e < 0 || !claim_room(r, run, need)) {
		running_remove(run);
		return false;
	}
	pending_remove(r->pending, &job->wait);
	job->running = run;
	run->keeper = k;
	k->running = run;
	running_count(run, 1);
	if (run->num_gpus)
		ledger_add(&r->ledger, &(struct ledger_job){.id = run->id,
					       .declared = run->declared,
					       .promised_bytes = run->promised_bytes,
					       .gpus = run->gpus,
					       .num_gpus = run->num_gpus});
	/* If the keeper is gone, its socket closes. */
	(void)runner_keeper_send(k, &o, payload.data);
	return true;
}

static struct job *job_of(struct pending_job *p)
{
	return (struct job *)(void *)((char *)p - offsetof(struct job, wait));
}

static void place_all(struct runner *r)
{
	int gpus[256];
	struct pending_job *p;
	r->waits_for_gpu = false;
	pending_rewind(r->pending);
	placement_rewind(&r->reservation);
	while ((p = pending_peek(r->pending))) {
		struct job *job = job_of(p);
		struct placement_need need = *pending_need(r->pending, p);
		if (need.num_gpus > sizeof(gpus) / sizeof(gpus[0])) {
			pending_skip(r->pending, 0);
			continue;
		}
		int e = need.num_gpus == 0 && r->num_cpu_jobs >= (size_t)r->max_cpu_jobs
				? -EAGAIN
				: placement_choose(&r->ledger, job->id, &need, &r->reservation, gpus, NULL);
		if (e == 0) {
			if (!hand_out(r, job, gpus, &need))
				return;
			continue;
		}
		if (e == -EAGAIN)
			r->waits_for_gpu = true;
		if (e == -EAGAIN && need.num_gpus > 0 && !r->reservation.active &&
			placement_reserve(&r->reservation, &r->ledger, job->id, &need) < 0)
			r->fatal = -ENOMEM;
		pending_skip(r->pending,
			e == -EAGAIN ? placement_beyond(&r->ledger, &need, &r->reservation) : need.memory_bytes);
	}
}

void runner_place(struct runner *r)
{
	r->must_place = false;
	bool full = r->options.max_failures && r->failures >= (uint64_t)r->options.max_failures;
	/* No job is left whose start could show that starting works again: these troubles are over. */
	if (pending_count(r->pending) == 0 && r->num_running == 0)
		r->troubles &= ~(1u << RUNNER_TROUBLE_START | 1u << RUNNER_TROUBLE_KEEPER);
	if (r->interrupts || r->leaving || r->blocked || full || pending_count(r->pending) == 0)
		return;
	if (r->pause_until_ns)
		return; /* the tick tries again */
	if (r->fence_stale && runner_resync(r, false) < 0)
		return;
	runner_claims_read(r);
	if (build_ledger(r, NULL) < 0) {
		r->fatal = -ENOMEM;
		return;
	}
	place_all(r);
}
