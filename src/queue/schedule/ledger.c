/* SPDX-License-Identifier: MIT */
#include "queue/schedule/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

struct ledger_owner {
	int64_t pid;
	size_t job;
};

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Saturates: claims come from other users. */
static uint64_t plus(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static bool knows(const struct gd_gpu *gpu, unsigned bits)
{
	return (gpu->known & bits) == bits;
}

uint64_t ledger_bytes_on(const struct gd_gpu *gpu, uint64_t bytes, bool by_card)
{
	if (!by_card)
		return bytes;
	uint64_t threshold = LEDGER_DEFAULT_BYTES;
	if (knows(gpu, GD_GPU_KNOWN_MEMORY_TOTAL))
		threshold = least(threshold, gpu->memory_total_bytes - gpu->memory_total_bytes / 10);
	return most(bytes, threshold);
}

static bool is_attributable(const struct gd_gpu *gpu, bool foreign_pids)
{
	if (foreign_pids || gpu->mig_index >= 0 || !knows(gpu, GD_GPU_KNOWN_PROCESSES))
		return false;
	for (size_t i = 0; i < gpu->num_processes; i++)
		if (!gpu->processes[i]->memory_known)
			return false;
	return true;
}

static bool driver_free(const struct gd_gpu *gpu, uint64_t *ret)
{
	if (knows(gpu, GD_GPU_KNOWN_MEMORY_FREE))
		*ret = gpu->memory_free_bytes;
	else if (knows(gpu, GD_GPU_KNOWN_MEMORY_TOTAL | GD_GPU_KNOWN_MEMORY_USED))
		*ret = less(gpu->memory_total_bytes, gpu->memory_used_bytes);
	else
		return false;
	return true;
}

bool ledger_observed(
	const struct gd_gpu *gpu, const int64_t *pids, size_t num_pids, bool foreign_pids, uint64_t *ret_bytes)
{
	if (!is_attributable(gpu, foreign_pids))
		return false;
	uint64_t sum = 0;
	for (size_t i = 0; i < gpu->num_processes; i++)
		for (size_t k = 0; k < num_pids; k++)
			if (gpu->processes[i]->pid == pids[k]) {
				sum = plus(sum, gpu->processes[i]->memory_bytes);
				break;
			}
	*ret_bytes = sum;
	return true;
}

/* ---- Building ------------------------------------------------------------ */

static int compare_owners(const void *a, const void *b)
{
	int64_t x = ((const struct ledger_owner *)a)->pid, y = ((const struct ledger_owner *)b)->pid;
	return x < y ? -1 : x > y;
}

/* The owner of each PID, ordered by PID. */
static int list_owners(struct ledger *l, const struct ledger_input *in)
{
	size_t total = 0;
	for (size_t i = 0; i < in->num_jobs; i++)
		total += in->jobs[i].num_pids;
	int r = array_reserve(l->owners, &l->owners_capacity, total);
	if (r < 0)
		return r;
	l->num_owners = 0;
	for (size_t i = 0; i < in->num_jobs; i++)
		for (size_t k = 0; k < in->jobs[i].num_pids; k++)
			l->owners[l->num_owners++] = (struct ledger_owner){in->jobs[i].pids[k], i};
	if (l->num_owners > 1)
		qsort(l->owners, l->num_owners, sizeof(*l->owners), compare_owners);
	return 0;
}

static const struct ledger_owner *find_owner(const struct ledger *l, int64_t pid)
{
	struct ledger_owner key = {pid, 0};
	return l->num_owners ? bsearch(&key, l->owners, l->num_owners, sizeof(key), compare_owners) : NULL;
}

static bool is_on(const struct ledger_job *job, size_t gpu)
{
	for (size_t i = 0; i < job->num_gpus; i++)
		if (job->gpus[i] >= 0 && (size_t)job->gpus[i] == gpu)
			return true;
	return false;
}

static bool has_hidden(const struct ledger_input *in, size_t gpu)
{
	for (size_t i = 0; i < in->num_jobs; i++)
		if (in->jobs[i].hidden && is_on(&in->jobs[i], gpu))
			return true;
	return false;
}

static struct ledger_claimant claimant_of(const struct ledger_job *job)
{
	return job->claimant ? *job->claimant : (struct ledger_claimant){0};
}

static void consider_process(struct ledger_account *a, int64_t pid, uint64_t bytes)
{
	if (bytes == 0 || bytes <= a->holder_bytes)
		return;
	a->holder = LEDGER_PROCESS;
	a->holder_pid = pid;
	a->holder_bytes = bytes;
}

static void consider_job(struct ledger_account *a, const struct ledger_job *job, uint64_t bytes)
{
	if (bytes == 0 || bytes <= a->holder_bytes)
		return;
	a->holder = job->foreign ? LEDGER_CLAIM : LEDGER_JOB;
	a->holder_job = job->id;
	a->claimant = claimant_of(job);
	a->holder_bytes = bytes;
}

/* Sums l->observed per job, and counts the processes. */
static void observe(struct ledger *l, struct ledger_account *a, const struct ledger_input *in)
{
	memset(l->observed, 0, in->num_jobs * sizeof(*l->observed));
	if (!knows(a->gpu, GD_GPU_KNOWN_PROCESSES))
		return;
	for (size_t i = 0; i < a->gpu->num_processes; i++) {
		const struct gd_gpu_process *p = a->gpu->processes[i];
		const struct ledger_owner *owner = in->foreign_pids ? NULL : find_owner(l, p->pid);
		if (owner && in->jobs[owner->job].ended) {
			a->driver_free_bytes = plus(a->driver_free_bytes, p->memory_known ? p->memory_bytes : 0);
			continue;
		}
		a->processes++;
		if (owner && p->memory_known)
			l->observed[owner->job] = plus(l->observed[owner->job], p->memory_bytes);
		if (!owner || in->jobs[owner->job].foreign)
			a->foreign_processes++;
		if (!owner && p->memory_known && !in->foreign_pids)
			consider_process(a, p->pid, p->memory_bytes);
	}
}

uint64_t ledger_promised(const struct gd_gpu *gpu, bool foreign, uint64_t bytes, bool by_card)
{
	uint64_t promised = ledger_bytes_on(gpu, bytes, by_card);
	return foreign && knows(gpu, GD_GPU_KNOWN_MEMORY_TOTAL) ? least(promised, gpu->memory_total_bytes) : promised;
}

/* Adds the figures of one job on one GPU; close_account() computes free_bytes later. */
static void enter(struct ledger_account *a, const struct ledger_job *job, uint64_t observed)
{
	uint64_t promised = ledger_promised(a->gpu, job->foreign, job->promised_bytes, job->by_card);
	uint64_t held = most(promised, observed), outstanding = less(promised, observed);
	a->promised_bytes = plus(a->promised_bytes, promised);
	a->outstanding_bytes = plus(a->outstanding_bytes, outstanding);
	if (job->foreign) {
		a->claims++;
		a->claimed_bytes = plus(a->claimed_bytes, promised);
		a->claims_outstanding_bytes = plus(a->claims_outstanding_bytes, outstanding);
	} else {
		a->jobs++;
		a->some_job = a->alone ? a->some_job : job->id;
		a->ours_observed_bytes = plus(a->ours_observed_bytes, observed);
	}
	if (!job->declared && !job->settled) {
		a->unsettled = true;
		a->unsettled_foreign = a->unsettled_foreign || job->foreign;
		if (job->foreign)
			a->unsettled_claimant = claimant_of(job);
		else
			a->unsettled_job = job->id;
	}
	if (job->alone && job->foreign) {
		a->alone_foreign = true;
		a->alone_claimant = claimant_of(job);
	} else if (job->alone) {
		a->alone = true;
	}
	consider_job(a, job, held);
}

/* Adds what a job of ours was promised of the machine itself. */
static void enter_host(struct ledger *l, const struct ledger_job *job)
{
	if (l->cluster && job->node >= 0 && (size_t)job->node < l->num_nodes) {
		struct ledger_node *n = &l->nodes[job->node];
		n->host_promised_bytes = plus(n->host_promised_bytes, job->host_bytes);
		n->cpus_promised += job->cpus;
	}
	l->host_promised_bytes = plus(l->host_promised_bytes, job->host_bytes);
	l->cpus_promised += job->cpus;
}

static void close_account(struct ledger_account *a)
{
	bool total_known = knows(a->gpu, GD_GPU_KNOWN_MEMORY_TOTAL);
	uint64_t total = total_known ? a->gpu->memory_total_bytes : UINT64_MAX;
	uint64_t said = least(a->driver_free_bytes, total);
	if (a->driver_known && (a->attributable || !total_known)) {
		a->free_bytes = less(said, a->outstanding_bytes);
		a->drained_bytes = less(least(plus(said, a->ours_observed_bytes), total), a->claims_outstanding_bytes);
		a->known = true;
	} else if (total_known) {
		uint64_t others = a->note->baseline_known ? a->note->baseline_bytes : 0;
		uint64_t rest = less(total, others);
		a->free_bytes = least(a->driver_known ? said : total, less(rest, a->promised_bytes));
		a->drained_bytes = most(less(rest, a->claimed_bytes), a->free_bytes);
		a->known = true;
	}
	if (!a->driver_known)
		a->driver_free_bytes = a->free_bytes;
}

int ledger_build(struct ledger *l, const struct ledger_input *in)
{
	static const struct ledger_note nothing;
	int r = array_reserve(l->accounts, &l->accounts_capacity, in->num_gpus);
	if (r == 0)
		r = array_reserve(l->observed, &l->observed_capacity, in->num_jobs + 1);
	if (r == 0)
		r = list_owners(l, in);
	if (r < 0)
		return r;
	l->num_gpus = in->num_gpus;
	l->gpus = in->gpus;
	l->jobs_per_gpu = in->jobs_per_gpu;
	l->host_bytes = in->cluster ? 0 : in->host_bytes;
	l->cpus = in->cluster ? 0 : in->cpus;
	l->cluster = in->cluster;
	l->nodes = in->nodes;
	l->num_nodes = in->num_nodes;
	l->gpu_nodes = in->gpu_nodes;
	for (size_t i = 0; i < l->num_nodes; i++)
		l->nodes[i].cpus_promised = l->nodes[i].host_promised_bytes = 0;
	l->host_promised_bytes = l->cpus_promised = 0;
	for (size_t i = 0; i < in->num_jobs; i++)
		if (!in->jobs[i].foreign && !in->jobs[i].ended)
			enter_host(l, &in->jobs[i]);
	for (size_t g = 0; g < in->num_gpus; g++) {
		struct ledger_account *a = &l->accounts[g];
		*a = (struct ledger_account){.gpu = in->gpus[g], .note = in->notes ? &in->notes[g] : &nothing};
		a->attributable = is_attributable(a->gpu, in->foreign_pids) && !has_hidden(in, g);
		a->driver_known = driver_free(a->gpu, &a->driver_free_bytes);
		observe(l, a, in);
		for (size_t i = 0; i < in->num_jobs; i++)
			if (!in->jobs[i].ended && is_on(&in->jobs[i], g))
				enter(a, &in->jobs[i], a->attributable ? l->observed[i] : 0);
		close_account(a);
	}
	return 0;
}

void ledger_add(struct ledger *l, const struct ledger_job *job)
{
	enter_host(l, job);
	for (size_t g = 0; g < l->num_gpus; g++) {
		if (!is_on(job, g))
			continue;
		enter(&l->accounts[g], job, 0);
		close_account(&l->accounts[g]);
	}
}

void ledger_finish(struct ledger *l)
{
	free(l->accounts);
	free(l->owners);
	free(l->observed);
	*l = (struct ledger){0};
}

/* ---- Over time ----------------------------------------------------------- */

bool ledger_watch(struct ledger_watch *w, uint64_t now_ns, bool known, uint64_t bytes)
{
	if (w->settled)
		return true;
	if (!w->seen) {
		w->seen = true;
		w->since_ns = now_ns;
	}
	/* 2%: caching allocators grow by some MB for hours. */
	if (known && bytes > w->bytes + w->bytes / 50) {
		w->bytes = bytes;
		w->since_ns = now_ns;
	}
	uint64_t quiet = less(now_ns, w->since_ns);
	w->settled = quiet >= (known && w->bytes ? LEDGER_SETTLE_NS : LEDGER_SETTLE_UNSEEN_NS);
	return w->settled;
}

void ledger_watch_baseline(
	struct ledger_note *note, const struct gd_gpu *gpu, bool any_job_there, uint64_t promised_bytes)
{
	uint64_t used;
	if (knows(gpu, GD_GPU_KNOWN_MEMORY_TOTAL | GD_GPU_KNOWN_MEMORY_FREE))
		used = less(gpu->memory_total_bytes, gpu->memory_free_bytes);
	else if (knows(gpu, GD_GPU_KNOWN_MEMORY_USED))
		used = gpu->memory_used_bytes;
	else
		return;
	uint64_t beyond = less(used, promised_bytes);
	if (!any_job_there)
		note->baseline_bytes = used;
	else if (!note->baseline_known)
		note->baseline_bytes = beyond;
	else
		note->baseline_bytes = most(least(note->baseline_bytes, used), beyond);
	note->baseline_known = true;
}
