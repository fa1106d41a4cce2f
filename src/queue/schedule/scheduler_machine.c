/* SPDX-License-Identifier: MIT */
/* What the scheduler knows about the machine: its GPUs, their holders, and the claims of other queues. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "queue/schedule/scheduler_private.h"

/* ---- Jobs that hold GPUs, see scheduler_holders.c ------------------------------------ */

int scheduler_adopt(struct scheduler *s, const struct job *job, const int *gpus, size_t num_gpus)
{
	struct placement_need need;
	scheduler_job_need(s, job, &need);
	scheduler_touch(s);
	return scheduler_hold(s, job->id, &need, gpus, num_gpus) ? 0 : -ENOMEM;
}

int scheduler_adopt_unknown(struct scheduler *s, uint64_t id, const struct job *job, const int *gpus, size_t num_gpus)
{
	struct placement_need need = {.num_gpus = (unsigned)num_gpus, .alone = true};
	if (job)
		scheduler_job_need(s, job, &need);
	struct holder *h = scheduler_hold(s, id, &need, gpus, num_gpus);
	if (!h)
		return -ENOMEM;
	h->unknown = true;
	scheduler_touch(s);
	return 0;
}

void scheduler_end(struct scheduler *s, uint64_t id)
{
	struct holder *h = scheduler_find(s, id);
	if (!h)
		return;
	h->ended = true;
	h->job = NULL;
	scheduler_late_completed(s, s->times ? jobs_find(s->jobs, id) : NULL);
	scheduler_touch(s);
	/* The last sample does not include the job. */
	if (h->num_pids == 0)
		scheduler_let_go(s, h);
}

void scheduler_end_finished(struct scheduler *s)
{
	for (struct holder *h = s->holders.last, *previous; h; h = previous) {
		const struct job *job = jobs_find(s->jobs, h->id);
		bool holds = job ? job->state == JOB_RUNNING || job->state == JOB_PENDING || job->state == JOB_UNKNOWN
				 : h->unknown;
		previous = h->previous;
		if (!h->ended && !holds)
			scheduler_end(s, h->id);
	}
}

void scheduler_withdraw(struct scheduler *s, uint64_t id)
{
	struct holder *h = scheduler_find(s, id);
	if (h)
		scheduler_let_go(s, h);
}

void scheduler_set_stuck(struct scheduler *s, uint64_t id)
{
	struct holder *h = scheduler_find(s, id);
	if (!h)
		return;
	h->stuck = true;
	job_stuck_words(id, h->stuck_words);
	scheduler_touch(s);
}

int scheduler_set_pids(struct scheduler *s, uint64_t id, const int64_t *pids, size_t count)
{
	struct holder *h = scheduler_find(s, id);
	if (!h)
		return 0;
	if (array_reserve(h->pids, &h->pids_capacity, count) < 0)
		return -ENOMEM;
	if (count)
		memcpy(h->pids, pids, count * sizeof(*pids));
	h->num_pids = count;
	scheduler_touch(s);
	return 0;
}

bool scheduler_is_settled(const struct scheduler *s, uint64_t id)
{
	const struct holder *h = scheduler_find(s, id);
	return h && h->watch.settled;
}

/* ---- The sample ----------------------------------------------------------------------- */

static void free_sample(struct sampled_gpu *gpus, size_t count)
{
	for (size_t i = 0; gpus && i < count; i++) {
		free(gpus[i].processes);
		free(gpus[i].pointers);
	}
	free(gpus);
}

static int copy_gpu(struct sampled_gpu *to, const struct gd_gpu *gpu)
{
	size_t n = gpu->num_processes;
	to->gpu = *gpu;
	to->processes = calloc(n + 1, sizeof(*to->processes));
	to->pointers = calloc(n + 1, sizeof(*to->pointers));
	if (!to->processes || !to->pointers)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		to->processes[i] = *gpu->processes[i];
		to->pointers[i] = &to->processes[i];
	}
	to->gpu.processes = to->pointers;
	return 0;
}

static int take_sample(struct scheduler *s, const struct gd_gpu *const *gpus, size_t count)
{
	struct sampled_gpu *fresh = calloc(count + 1, sizeof(*fresh));
	const struct gd_gpu **pointers = calloc(count + 1, sizeof(*pointers));
	struct ledger_note *notes = count == s->num_gpus && s->notes ? NULL : calloc(count + 1, sizeof(*notes));
	int r = fresh && pointers && (notes || s->notes) ? 0 : -ENOMEM;
	for (size_t i = 0; r == 0 && i < count; i++) {
		r = copy_gpu(&fresh[i], gpus[i]);
		pointers[i] = &fresh[i].gpu;
	}
	if (r < 0) {
		free_sample(fresh, count);
		free(pointers);
		free(notes);
		return r;
	}
	free_sample(s->gpus, s->num_gpus);
	free(s->gpu_pointers);
	s->gpus = fresh;
	s->gpu_pointers = pointers;
	if (notes) {
		free(s->notes);
		s->notes = notes;
	}
	s->num_gpus = count;
	return 0;
}

static bool is_on(const int *gpus, size_t count, size_t gpu)
{
	for (size_t i = 0; i < count; i++)
		if ((size_t)gpus[i] == gpu)
			return true;
	return false;
}

bool scheduler_is_claimed(const struct scheduler *s, size_t gpu)
{
	bool any = false;
	for (size_t i = 0; i < s->num_claims && !any; i++)
		any = is_on(s->claims[i].gpus, s->claims[i].entry.num_gpus, gpu);
	return any;
}

/* What jobs and claims on a GPU were promised in total. */
struct promises {
	bool any; /* a job or a claim is there */
	bool own; /* one of them is a job of ours */
	uint64_t bytes;
};

static void add_promise(struct promises *p, uint64_t bytes)
{
	p->any = true;
	p->bytes = p->bytes > UINT64_MAX - bytes ? UINT64_MAX : p->bytes + bytes;
}

static struct promises promises_on(const struct scheduler *s, size_t g)
{
	const struct gd_gpu *gpu = &s->gpus[g].gpu;
	struct promises ret = {0};
	for (size_t i = 0; i < s->num_claims; i++) {
		const struct ledger_job *claim = &s->claims[i].entry;
		if (is_on(s->claims[i].gpus, claim->num_gpus, g))
			add_promise(&ret, ledger_promised(gpu, true, claim->promised_bytes, claim->by_card));
	}
	for (const struct holder *h = s->holders.first; h; h = h->next) {
		if (!is_on(h->gpus, h->num_gpus, g))
			continue;
		add_promise(&ret, ledger_promised(gpu, false, h->need.memory_bytes, h->need.by_card));
		ret.own = true;
	}
	return ret;
}

static void watch_baseline(struct scheduler *s, size_t g, bool again)
{
	struct promises p = promises_on(s, g);
	if (p.any && again)
		s->notes[g].baseline_known = false;
	if (p.own && s->notes[g].baseline_known)
		p.bytes = UINT64_MAX; /* a job of ours may use more than it was promised */
	ledger_watch_baseline(&s->notes[g], &s->gpus[g].gpu, p.any, p.bytes);
}

static void watch_baselines(struct scheduler *s)
{
	for (size_t g = 0; g < s->num_gpus; g++)
		watch_baseline(s, g, false);
}

void scheduler_correct_baselines(struct scheduler *s)
{
	for (size_t g = 0; g < s->num_gpus; g++)
		watch_baseline(s, g, true);
	scheduler_touch(s);
}

/* Tracks the highest observed memory of the job on one of its GPUs. */
static void watch_holder(struct scheduler *s, struct holder *h, uint64_t now_ns)
{
	bool any_seen = false;
	uint64_t most = 0, bytes;
	for (size_t i = 0; i < h->num_gpus; i++) {
		if ((size_t)h->gpus[i] >= s->num_gpus)
			continue;
		if (!ledger_observed(&s->gpus[h->gpus[i]].gpu, h->pids, h->num_pids, s->settings.foreign_pids, &bytes))
			continue;
		any_seen = true;
		most = bytes > most ? bytes : most;
	}
	(void)ledger_watch(&h->watch, now_ns, any_seen, most);
}

int scheduler_sample(struct scheduler *s, uint64_t now_ns, const struct gd_gpu *const *gpus, size_t count)
{
	if (count == 0 && !gpus) {
		free_sample(s->gpus, s->num_gpus);
		free(s->gpu_pointers);
		free(s->notes);
		s->gpus = NULL;
		s->gpu_pointers = NULL;
		s->notes = NULL;
		s->num_gpus = 0;
		return 0;
	}
	int r = take_sample(s, gpus, count);
	if (r < 0)
		return r;
	scheduler_touch(s);
	for (struct holder *h = s->holders.last, *previous; h; h = previous) {
		previous = h->previous;
		if (h->ended)
			scheduler_let_go(s, h);
		else
			watch_holder(s, h, now_ns);
	}
	watch_baselines(s);
	return 0;
}

const struct ledger_note *scheduler_note(const struct scheduler *s, size_t gpu)
{
	return &s->notes[gpu];
}

/* ---- Claims --------------------------------------------------------------------------- */

static void free_claims(struct foreign_claim *claims, size_t count)
{
	for (size_t i = 0; claims && i < count; i++) {
		free(claims[i].gpus);
		free(claims[i].pids);
	}
	free(claims);
}

static int copy_claim(struct foreign_claim *to, const struct ledger_job *claim)
{
	to->entry = *claim;
	to->entry.foreign = true;
	to->gpus = calloc(claim->num_gpus + 1, sizeof(*to->gpus));
	to->pids = calloc(claim->num_pids + 1, sizeof(*to->pids));
	if (!to->gpus || !to->pids)
		return -ENOMEM;
	if (claim->num_gpus)
		memcpy(to->gpus, claim->gpus, claim->num_gpus * sizeof(*to->gpus));
	if (claim->num_pids)
		memcpy(to->pids, claim->pids, claim->num_pids * sizeof(*to->pids));
	if (claim->claimant)
		to->claimant = *claim->claimant;
	to->entry.gpus = to->gpus;
	to->entry.pids = to->pids;
	return 0;
}

int scheduler_set_claims(struct scheduler *s, const struct ledger_job *claims, size_t count)
{
	struct foreign_claim *fresh = count ? calloc(count, sizeof(*fresh)) : NULL;
	int r = count && !fresh ? -ENOMEM : 0;
	for (size_t i = 0; r == 0 && i < count; i++)
		r = copy_claim(&fresh[i], &claims[i]);
	if (r < 0) {
		free_claims(fresh, count);
		return r;
	}
	if (count || s->num_claims)
		scheduler_touch(s);
	free_claims(s->claims, s->num_claims);
	s->claims = fresh;
	s->num_claims = count;
	for (size_t i = 0; i < count; i++)
		fresh[i].entry.claimant = &fresh[i].claimant;
	return 0;
}

/* ---- The nodes of a cluster ------------------------------------------------------------ */

int scheduler_set_nodes(
	struct scheduler *s, const struct ledger_node *nodes, size_t num_nodes, const int *gpu_nodes, size_t num_gpus)
{
	struct ledger_node *fresh = calloc(num_nodes + 1, sizeof(*fresh));
	int *of = calloc(num_gpus + 1, sizeof(*of));
	if (!fresh || !of) {
		free(fresh);
		free(of);
		return -ENOMEM;
	}
	if (num_nodes)
		memcpy(fresh, nodes, num_nodes * sizeof(*fresh));
	if (num_gpus)
		memcpy(of, gpu_nodes, num_gpus * sizeof(*of));
	free(s->nodes);
	free(s->gpu_nodes);
	s->nodes = fresh;
	s->num_nodes = num_nodes;
	s->gpu_nodes = of;
	s->num_gpu_nodes = num_gpus;
	s->cluster = true;
	scheduler_touch(s);
	return 0;
}

void scheduler_set_node(struct scheduler *s, uint64_t id, int node)
{
	struct holder *h = scheduler_find(s, id);
	if (!h)
		return;
	h->node = node;
	scheduler_touch(s);
}

/* A GPU that was sampled before its node was set has no node. */
static int pad_nodes(struct scheduler *s)
{
	if (s->num_gpu_nodes >= s->num_gpus)
		return 0;
	int *longer = realloc(s->gpu_nodes, s->num_gpus * sizeof(*longer));
	if (!longer)
		return -ENOMEM;
	for (size_t i = s->num_gpu_nodes; i < s->num_gpus; i++)
		longer[i] = -1;
	s->gpu_nodes = longer;
	s->num_gpu_nodes = s->num_gpus;
	return 0;
}

/* ---- The ledger ----------------------------------------------------------------------- */

static void note_quarantines(struct scheduler *s)
{
	for (size_t g = 0; g < s->num_gpus; g++)
		s->notes[g].quarantined = false;
	for (struct holder *h = s->holders.first; h; h = h->next) {
		for (size_t k = 0; h->stuck && !h->ended && k < h->num_gpus; k++)
			if ((size_t)h->gpus[k] < s->num_gpus) {
				s->notes[h->gpus[k]].quarantined = true;
				s->notes[h->gpus[k]].why = h->stuck_words;
			}
	}
}

int scheduler_build_ledger(struct scheduler *s, const struct holder *but)
{
	size_t n = 0;
	if (array_reserve(s->entries, &s->entries_capacity, s->holders.count + s->num_claims + 1) < 0)
		return -ENOMEM;
	note_quarantines(s);
	for (const struct holder *h = s->holders.first; h; h = h->next) {
		if (h == but)
			continue;
		s->entries[n++] = (struct ledger_job){.id = h->id,
			.ended = h->ended,
			.declared = h->need.declared,
			.alone = h->need.alone,
			.by_card = h->need.by_card,
			.settled = h->watch.settled,
			.promised_bytes = h->need.memory_bytes,
			.host_bytes = h->need.host_bytes,
			.cpus = h->need.cpus,
			.node = h->node,
			.gpus = h->gpus,
			.num_gpus = h->num_gpus,
			.pids = h->pids,
			.num_pids = h->num_pids};
	}
	for (size_t i = 0; i < s->num_claims; i++)
		s->entries[n++] = s->claims[i].entry;
	int jobs_per_gpu = s->settings.rules.jobs_per_gpu;
	struct ledger_input in = {.gpus = s->gpu_pointers,
		.notes = s->notes,
		.num_gpus = s->num_gpus,
		.jobs = s->entries,
		.num_jobs = n,
		.jobs_per_gpu = jobs_per_gpu > 0 ? (unsigned)jobs_per_gpu : 0,
		.host_bytes = s->settings.host_bytes,
		.cpus = s->settings.cpus,
		.foreign_pids = s->settings.foreign_pids,
		.cluster = s->cluster,
		.nodes = s->nodes,
		.num_nodes = s->num_nodes,
		.gpu_nodes = s->gpu_nodes};
	if (s->cluster && pad_nodes(s) < 0)
		return -ENOMEM;
	in.gpu_nodes = s->gpu_nodes;
	return ledger_build(&s->ledger, &in);
}
