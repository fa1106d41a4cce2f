/* SPDX-License-Identifier: MIT */
/* The placement pass: the only code that decides which job starts. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "queue/schedule/pending.h"
#include "queue/schedule/scheduler_private.h"

static struct job *job_of(struct pending_job *p)
{
	return (struct job *)(void *)((char *)p - offsetof(struct job, wait));
}

int scheduler_refresh(struct scheduler *s)
{
	if (s->ledger_stale) {
		int r = scheduler_build_ledger(s, NULL);
		if (r < 0)
			return r;
		s->ledger_stale = false;
		s->pass_stale = true;
	}
	if (s->pass_stale) {
		pending_rewind(s->pending);
		placement_rewind(&s->reservation);
		s->hopeful = s->pass_started = false;
		s->pass_stale = false;
	}
	return 0;
}

/* Hands out the job: it holds its GPUs from here on. */
static int take(
	struct scheduler *s, struct pending_job *p, const struct placement_need *need, struct scheduler_start *ret)
{
	struct job *job = job_of(p);
	struct holder *h = scheduler_hold(s, job->id, need, s->chosen, need->num_gpus);
	if (!h)
		return -ENOMEM;
	if (s->cluster && need->num_gpus == 0)
		h->node = placement_choose_node(&s->ledger, job->id, need, &s->reservation);
	*ret = (struct scheduler_start){
		.job = job, .need = *need, .gpus = h->gpus, .num_gpus = h->num_gpus, .node = h->node};
	h->job = job;
	s->generation++;
	scheduler_unlist(s, job);
	s->pass_stale = false; /* the pass continues */
	s->pass_started = true;
	ledger_add(&s->ledger, &(struct ledger_job){.id = h->id,
				       .declared = need->declared,
				       .alone = need->alone,
				       .by_card = need->by_card,
				       .promised_bytes = need->memory_bytes,
				       .host_bytes = need->host_bytes,
				       .cpus = need->cpus,
				       .node = h->node,
				       .gpus = h->gpus,
				       .num_gpus = h->num_gpus});
	return 1;
}

/* Jobs of this kind that need at least this much memory are skipped in this pass. */
static uint64_t skip_from(const struct scheduler *s, uint64_t id, struct placement_need need, bool never)
{
	if (placement_judge_host(&s->ledger, id, &need, &s->reservation) != PLACEMENT_HOST_FITS)
		return 0; /* all jobs of its kind need as much of the machine */
	if (!never)
		return placement_beyond(&s->ledger, &need, &s->reservation);
	uint64_t bytes = need.memory_bytes;
	need.memory_bytes = 0;
	return placement_is_possible(&s->ledger, &need) ? bytes : 0;
}

/* The job does not fit. */
static int pass_over(struct scheduler *s, uint64_t id, const struct placement_need *need, bool never)
{
	if (!never) {
		s->hopeful = true;
		if (need->num_gpus > 0 && !s->reservation.active) {
			s->generation += s->reservation.job != id;
			if (placement_reserve(&s->reservation, &s->ledger, id, need) < 0)
				return -ENOMEM;
		}
		placement_reserve_host(&s->reservation, &s->ledger, id, need);
	}
	pending_skip(s->pending, skip_from(s, id, *need, never));
	return 0;
}

int scheduler_decide(struct scheduler *s, uint64_t now_ns, struct scheduler_start *ret)
{
	struct pending_job *p;
	if (now_ns < s->not_before_ns)
		return 0;
	s->not_before_ns = 0;
	int r = scheduler_refresh(s);
	while (r == 0) {
		p = pending_peek(s->pending);
		if (!p && !s->pass_started)
			break;
		if (!p) {
			s->pass_stale = true;
			r = scheduler_refresh(s);
			continue;
		}
		if (scheduler_is_late(s, job_of(p))) {
			scheduler_set_aside(s, job_of(p));
			continue;
		}
		struct placement_need need = *pending_need(s->pending, p);
		if (s->cluster)
			need.over_ms = scheduler_over_ms(s, job_of(p));
		int e = need.num_gpus > SCHEDULER_MAX_GPUS
				? -ENODEV
				: placement_choose(&s->ledger, p->order, &need, &s->reservation, s->chosen, NULL);
		if (e == 0)
			e = take(s, p, &need, ret);
		if (e == 1)
			return 1;
		r = e == -ENOMEM ? e : pass_over(s, p->order, &need, e == -ENODEV);
	}
	/* The next call considers all jobs again. */
	if (r < 0)
		s->pass_stale = true;
	return r;
}

bool scheduler_is_hopeful(const struct scheduler *s)
{
	return s->hopeful;
}

/* ---- Claims that arrived meanwhile ------------------------------------------------------ */

bool scheduler_still_fits(struct scheduler *s, uint64_t id)
{
	const struct holder *h = scheduler_find(s, id);
	struct placement_verdict *verdicts = calloc(s->num_gpus + 1, sizeof(*verdicts));
	bool fits = h && verdicts && scheduler_build_ledger(s, h) == 0 &&
		    placement_choose(&s->ledger, id, &h->need, NULL, s->chosen, verdicts) == 0;
	for (size_t i = 0; fits && i < h->num_gpus; i++)
		fits = verdicts[h->gpus[i]].reason == PLACEMENT_FITS;
	free(verdicts);
	s->ledger_stale = true;
	if (fits)
		s->refusals = 0;
	return fits;
}

int scheduler_refuse(struct scheduler *s, uint64_t id, uint64_t until_ns)
{
	char words[SCHEDULER_WORDS];
	struct holder *h = scheduler_find(s, id);
	struct job *job = h ? h->job : NULL;
	s->refusals++;
	s->not_before_ns = until_ns;
	s->generation++;
	if (h)
		scheduler_let_go(s, h);
	return job ? scheduler_add(s, job, words) : 0;
}

unsigned scheduler_refusals(const struct scheduler *s)
{
	return s->refusals;
}

uint64_t scheduler_generation(const struct scheduler *s)
{
	return s->generation;
}

uint64_t scheduler_not_before(const struct scheduler *s)
{
	return s->not_before_ns;
}
