/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_leases.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "queue/journal/record.h"
#include "queue/runner/runner_follow.h"
#include "queue/runner/runner_hooks.h"
#include "queue/runner/runner_keeper.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_recover.h"
#include "queue/runner/runner_trouble.h"
#include "queue/runner/runner_waiting.h"
#include "queue/runner/running.h"

/* A living keeper that cannot be reached this many times, a second apart, is in another network namespace. */
#define MOST_REFUSALS 5
#define UNREACHABLE                                                                                                    \
	"its 'gpuq exec' cannot be reached from the runner; is one of them in a container with a network of its own?"

static struct runner_lease *find(struct runner *r, uint64_t id)
{
	struct runner_leases *ls = &r->executing.leases;
	for (size_t i = 0; i < ls->count; i++)
		if (ls->leases[i].id == id)
			return &ls->leases[i];
	return NULL;
}

void runner_lease_watch(struct runner *r, const struct job *job)
{
	struct runner_leases *ls = &r->executing.leases;
	if (find(r, job->id))
		return;
	if (array_reserve(ls->leases, &ls->capacity, ls->count + 1) < 0) {
		r->fatal = -ENOMEM;
		return;
	}
	ls->leases[ls->count++] = (struct runner_lease){.id = job->id};
}

static bool is_waiting(const struct job *job)
{
	return job && job->lease && (job->state == JOB_PENDING || job->state == JOB_HELD) && !job->running;
}

bool runner_lease_may_wait(struct runner *r, const struct job *job)
{
	runner_lease_watch(r, job);
	const struct runner_lease *l = find(r, job->id);
	if (!l || !runner_same_host(r, job->keeper) || l->parked)
		return false;
	if (runner_keeper_holder(r, job->keeper) != 0)
		return true;
	r->executing.must_judge = true;
	return false;
}

/* Under the append lock and with the raised fence, so that the lease cannot be started later. */
static int append_cancel(struct runner *r, uint64_t id)
{
	int e = journal_lock(r->following.journal, &r->error);
	if (e < 0)
		return e;
	e = runner_read(r);
	const struct job *job = jobs_find(&r->following.jobs, id);
	if (e == 0 && is_waiting(job) && runner_keeper_holder(r, job->keeper) == 0) {
		cleanup_(text_finish) struct text t = {0};
		record_write_control(&t, EVENT_CANCEL, id, REASON_LEASE_LEFT);
		e = text_error(&t);
		if (e == 0)
			e = journal_raise_fence(r->following.journal, &r->error);
		if (e == 0)
			e = journal_append(r->following.journal, t.data, t.length, NULL, &r->error);
	}
	journal_unlock(r->following.journal);
	return e;
}

static void cancel(struct runner *r, uint64_t id)
{
	int e = append_cancel(r, id);
	if (e < 0 && !r->fatal)
		runner_pause(r, RUNNER_TROUBLE_WRITE, e);
	else if (e == 0)
		runner_works(r, 1u << RUNNER_TROUBLE_WRITE);
	r->following.must_read = r->deciding.must_place = true;
}

static void judge(struct runner *r, struct runner_lease *l, struct job *job)
{
	uint64_t id = l->id;
	if (!runner_same_host(r, job->keeper))
		return;
	if (runner_keeper_holder(r, job->keeper) == 0) {
		cancel(r, id); /* `l` may have moved */
	} else if (l->parked && l->refusals >= MOST_REFUSALS) {
		l->refusals = 0;
		record_write_fail(&r->following.to_append, id, UNREACHABLE, runner_hook_to_record(r, job));
	} else if (l->parked) {
		l->parked = false;
		if (job->state == JOB_PENDING)
			runner_enqueue(r, job);
	}
}

/* Reading the journal may add leases to the list. */
void runner_leases_judge(struct runner *r)
{
	struct runner_leases *ls = &r->executing.leases;
	for (size_t i = 0; i < ls->count && !r->fatal;) {
		struct job *job = jobs_find(&r->following.jobs, ls->leases[i].id);
		if (!job || (!is_waiting(job) && !job->running)) {
			ls->leases[i] = ls->leases[--ls->count];
			continue;
		}
		if (!job->running)
			judge(r, &ls->leases[i], job);
		i++;
	}
}

static int append_grant(struct runner *r, const struct job *job, const struct running *run)
{
	cleanup_(text_finish) struct text t = {0};
	cleanup_(freep) int *gpus = calloc(run->num_gpus + 1, sizeof(*gpus));
	if (!gpus)
		return -ENOMEM;
	for (size_t i = 0; i < run->num_gpus; i++)
		gpus[i] = r->watching.gpus->gpus[run->gpus[i]]->index;
	record_write_grant(&t, &(struct attempt_start){.id = job->id,
				       .attempt = job_next_attempt(job),
				       .pid = job->keeper->pid,
				       .keeper = job->keeper->name,
				       .gpus = gpus,
				       .num_gpus = run->num_gpus});
	int e = text_error(&t);
	if (e == 0)
		e = journal_lock(r->following.journal, &r->error);
	if (e < 0)
		return e;
	e = r->following.journal->fence == r->following.fence
		    ? journal_append(r->following.journal, t.data, t.length, NULL, &r->error)
		    : -ESTALE;
	journal_unlock(r->following.journal);
	return e;
}

struct runner_keeper *runner_lease_grant(struct runner *r, const struct job *job, struct running *run)
{
	struct runner_lease *l = find(r, job->id);
	if (!l)
		return NULL;
	if (!runner_keeper_adopt(r, run, job->keeper)) {
		l->parked = true;
		l->refusals++;
		/* The keeper may have just died. */
		if (l->refusals == 1)
			r->executing.must_judge = true;
		return NULL;
	}
	l->refusals = 0;
	int e = append_grant(r, job, run);
	if (e == 0)
		return run->keeper;
	runner_keeper_forget(run->keeper);
	if (e == -ESTALE)
		r->following.fence_stale = r->deciding.must_place = true;
	else
		runner_pause(r, RUNNER_TROUBLE_WRITE, e);
	return NULL;
}
