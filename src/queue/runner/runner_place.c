/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/loop.h"
#include "gpu/affinity.h"
#include "queue/keeper/keeper_messages.h"
#include "queue/runner/runner_begin.h"
#include "queue/runner/runner_claims.h"
#include "queue/runner/runner_debug.h"
#include "queue/runner/runner_follow.h"
#include "queue/runner/runner_home.h"
#include "queue/runner/runner_hooks.h"
#include "queue/runner/runner_keeper.h"
#include "queue/runner/runner_leases.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_trouble.h"
#include "queue/runner/runner_waiting.h"
#include "queue/runner/running.h"
#include "queue/schedule/scheduler.h"

/*
 * Announces the claim, then checks again: of two queues that announce at the same time, at least one
 * sees the other and backs off. True if the job still fits.
 */
static bool claim_room(struct runner *r, struct running *run)
{
	if (!r->watching.claims || run->num_gpus == 0)
		return true;
	running_claim(run);
	return runner_claims_read(r) == 0 && scheduler_still_fits(r->deciding.scheduler, run->id);
}

/* Another queue was faster. */
static void back_off(struct runner *r, uint64_t id)
{
	struct scheduler *s = r->deciding.scheduler;
	uint64_t wait_ms = claims_backoff_ms(scheduler_refusals(s)), until = clock_now_ns() + wait_ms * NS_PER_MS;
	runner_debug(r, "job %llu does not start: another queue claimed its GPUs; retrying in %llu ms",
		(unsigned long long)id, (unsigned long long)wait_ms);
	if (scheduler_refuse(s, id, until) < 0)
		runner_enqueue_later(r, -ENOMEM);
	r->deciding.pause_until_ns = until;
	loop_advance_deadline(r->tick, until + NS_PER_MS);
}

/* The CPUs of the job, to which its first process restricts itself. */
static void set_cpus(struct keeper_order *o, struct text *payload, const struct gd_gpu *const *gpus, size_t num_gpus)
{
	cleanup_(text_finish) struct text cpus = {0};
	if (num_gpus > 0)
		gpu_affinity(gpus, num_gpus, &cpus);
	job_order_set_variable(o, payload, KEEPER_CPUS, cpus.length ? text_string(&cpus) : NULL);
}

/* The order to run the job on its GPUs, under the current fence. */
static int write_order(struct runner *r, const struct job *job, const struct running *run, struct keeper_order *o,
	struct text *payload)
{
	const struct gd_gpu *gpus[256];
	int indexes[256];
	for (size_t i = 0; i < run->num_gpus; i++) {
		gpus[i] = r->watching.gpus->gpus[run->gpus[i]];
		indexes[i] = gpus[i]->index;
	}
	cleanup_(freep) struct gd_env_change *changes = NULL;
	cleanup_(text_finish) struct text claim = {0};
	struct order_defaults *d = &r->options.order;
	int e = gd_gpu_bind(gpus, run->num_gpus, &changes, NULL);
	if (e == 0)
		e = running_claim_text(run, &claim);
	if (e == 0 && !job->wish->env)
		e = order_defaults_save(d, r->following.journal, NULL);
	if (e == 0)
		e = job_order_write(job, d, runner_hook_of(r, job), text_string(&claim), o, payload);
	if (e < 0)
		return e;
	o->fence = r->following.fence;
	for (const struct gd_env_change *c = changes; c->name; c++)
		job_order_set_variable(o, payload, c->name, c->value);
	if (r->options.cpu_affinity)
		set_cpus(o, payload, gpus, run->num_gpus);
	return job_order_set_gpus(o, payload, indexes, run->num_gpus);
}

/* Creates the running entry, and the order and payload for a keeper; NULL: not possible now. */
static struct running *prepare(
	struct runner *r, const struct scheduler_start *start, struct keeper_order *o, struct text *payload)
{
	struct running *run = running_add(r, start->job->id);
	int e = run ? running_set_start(run, start) : -ENOMEM;
	if (e == 0)
		e = write_order(r, start->job, run, o, payload);
	if (e == 0)
		return run;
	runner_pause(r, RUNNER_TROUBLE_START, e);
	if (run)
		running_remove(run);
	return NULL;
}

/* The job waits again until another attempt makes sense. */
static void put_back(struct runner *r, struct running *run, struct job *job)
{
	if (run)
		running_remove(run);
	scheduler_withdraw(r->deciding.scheduler, job->id);
	runner_enqueue(r, job);
	r->deciding.must_place = false;
}

/* False: nothing more can be started now. */
static bool hand_out(struct runner *r, const struct scheduler_start *start)
{
	struct job *job = start->job;
	/* A lease has its own keeper, which is asked last because a grant is not revoked. */
	struct runner_keeper *k = job->lease ? NULL : runner_keeper_get(r);
	cleanup_(text_finish) struct text payload = {0};
	struct keeper_order o;
	struct running *run = k || job->lease ? prepare(r, start, &o, &payload) : NULL;
	if (!run) {
		put_back(r, NULL, job);
		return false;
	}
	if (!claim_room(r, run)) {
		back_off(r, job->id);
		running_remove(run);
		return false;
	}
	if (job->lease && !(k = runner_lease_grant(r, job, run))) {
		bool go_on = !r->following.fence_stale && !r->deciding.pause_until_ns;
		put_back(r, run, job);
		r->deciding.must_place = r->deciding.must_place || r->following.fence_stale;
		return go_on;
	}
	/* If the keeper is gone, its socket closes. */
	if (runner_keeper_send(k, &o, payload.data) == -ENOMEM) {
		runner_pause(r, RUNNER_TROUBLE_START, -ENOMEM);
		put_back(r, run, job);
		return false;
	}
	job->running = run;
	run->keeper = k;
	k->running = run;
	running_count(run, 1);
	runner_debug_start(r, start);
	return true;
}

static void place_all(struct runner *r)
{
	struct scheduler_start start;
	int e;
	while ((e = scheduler_decide(r->deciding.scheduler, clock_now_ns(), &start)) == 1)
		if (!hand_out(r, &start))
			return;
	if (e < 0)
		runner_pause(r, RUNNER_TROUBLE_START, e);
	else
		runner_debug_waiting(r);
}

bool runner_is_full(const struct runner *r)
{
	return r->options.max_failures && r->deciding.failures >= (uint64_t)r->options.max_failures;
}

void runner_place(struct runner *r)
{
	size_t waiting = scheduler_num_waiting(r->deciding.scheduler) + r->deciding.incomplete;
	r->deciding.must_place = false;
	/* No job is left whose start could show that starting works again: clear these troubles. */
	if (waiting == 0 && r->executing.num_running == 0)
		r->troubles &= ~(1u << RUNNER_TROUBLE_START | 1u << RUNNER_TROUBLE_KEEPER);
	if (r->interrupts || r->leaving || runner_is_blocked(r) || runner_is_full(r) || waiting == 0)
		return;
	if (r->deciding.pause_until_ns)
		return; /* the tick retries */
	/* Orders contain paths of the queue. */
	if (!runner_home_check(r)) {
		if (!r->fatal && !r->moved)
			runner_pause(r, RUNNER_TROUBLE_FOLLOW, -ENOENT);
		return;
	}
	if (r->following.fence_stale && runner_resync(r, false) < 0)
		return;
	if (r->following.jobs.paused)
		return;
	if (r->deciding.incomplete)
		runner_enqueue_missing(r);
	if (r->deciding.incomplete || runner_claims_read(r) < 0)
		return;
	/* Update how much of the allocation is left. */
	if (scheduler_settings(r->deciding.scheduler)->end_ms)
		runner_begin_look(r);
	place_all(r);
}
