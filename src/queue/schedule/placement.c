/* SPDX-License-Identifier: MIT */
#include "queue/schedule/placement.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "queue/schedule/gpu_pin.h"
#include "queue/schedule/topology.h"

static bool is_in(const int *list, size_t count, size_t gpu)
{
	for (size_t i = 0; i < count; i++)
		if (list[i] >= 0 && (size_t)list[i] == gpu)
			return true;
	return false;
}

static uint64_t bytes_on(const struct ledger_account *a, const struct placement_need *need)
{
	return ledger_bytes_on(a->gpu, need->memory_bytes, need->by_card);
}

/* Whether a pin names this GPU. */
static bool is_pinned(const char *pin, const struct gd_gpu *gpu)
{
	bool allowed = false;
	return gpu_pin_resolve(pin, &gpu, 1, &allowed, NULL) != -ENOMEM && allowed;
}

/* Checks properties that do not change when jobs end. */
static enum placement_reason judge_card(const struct ledger_account *a, const struct placement_need *need)
{
	if (a->note->quarantined)
		return PLACEMENT_QUARANTINED;
	if (a->gpu->health != GD_GPU_HEALTH_OK)
		return PLACEMENT_UNHEALTHY;
	if (a->gpu->mig_index < 0 && a->gpu->mig_enabled)
		return PLACEMENT_SPLIT;
	if (a->gpu->mig_index >= 0 && need->num_gpus > 1)
		return PLACEMENT_MIG;
	if (need->pin && !is_pinned(need->pin, a->gpu))
		return PLACEMENT_PINNED;
	if ((a->gpu->known & GD_GPU_KNOWN_MEMORY_TOTAL) && bytes_on(a, need) > a->gpu->memory_total_bytes)
		return PLACEMENT_TOO_SMALL;
	return PLACEMENT_FITS;
}

/* drained: as if all our own jobs there had ended. */
static enum placement_reason judge_room(
	const struct ledger *l, const struct ledger_account *a, const struct placement_need *need, bool drained)
{
	unsigned jobs = drained ? 0 : a->jobs;
	size_t processes = drained ? a->foreign_processes : a->processes;
	bool exclusive = (a->gpu->known & GD_GPU_KNOWN_COMPUTE_MODE) && a->gpu->exclusive;
	if (exclusive && (jobs + a->claims > 0 || processes > 0))
		return PLACEMENT_EXCLUSIVE;
	if (a->alone_foreign || (a->alone && !drained))
		return PLACEMENT_TAKEN;
	if (need->alone && jobs > 0)
		return PLACEMENT_OCCUPIED;
	if (l->jobs_per_gpu && jobs >= l->jobs_per_gpu)
		return PLACEMENT_JOBS;
	if (!need->declared && (drained ? a->unsettled_foreign : a->unsettled))
		return PLACEMENT_UNSETTLED;
	if (!a->known)
		return jobs + a->claims > 0 ? PLACEMENT_MEMORY_UNKNOWN : PLACEMENT_FITS;
	return bytes_on(a, need) > (drained ? a->drained_bytes : a->free_bytes) ? PLACEMENT_MEMORY : PLACEMENT_FITS;
}

static enum placement_reason judge(const struct ledger *l, size_t gpu, const struct placement_need *need, bool drained)
{
	const struct ledger_account *a = &l->accounts[gpu];
	enum placement_reason reason = judge_card(a, need);
	return reason == PLACEMENT_FITS ? judge_room(l, a, need, drained) : reason;
}

static uint64_t left_of(uint64_t total, uint64_t used, uint64_t kept)
{
	uint64_t rest = total > used ? total - used : 0;
	return rest > kept ? rest - kept : 0;
}

/* Whether the node can take the job, apart from its GPUs. */
static enum placement_reason judge_node(const struct ledger *l, int node, uint64_t job,
	const struct placement_need *need, const struct placement_reservation *r, bool drained)
{
	if (node < 0 || !l->nodes[node].usable)
		return PLACEMENT_NODE_AWAY;
	const struct ledger_node *n = &l->nodes[node];
	bool others = !drained && r && r->host_active && r->host_node == node && r->host_job != job;
	uint64_t bytes = drained ? 0 : n->host_promised_bytes, cpus = drained ? 0 : n->cpus_promised;
	if (n->end_ms && need->over_ms > n->end_ms)
		return PLACEMENT_NODE_TIME;
	if (n->host_bytes && need->host_bytes > left_of(n->host_bytes, bytes, others ? r->host_bytes : 0))
		return PLACEMENT_NODE_HOST;
	if (n->cpus && need->cpus > left_of(n->cpus, cpus, others ? r->cpus : 0))
		return PLACEMENT_NODE_HOST;
	return PLACEMENT_FITS;
}

static struct placement_verdict verdict_of(const struct ledger *l, size_t gpu, uint64_t job,
	const struct placement_need *need, const struct placement_reservation *r)
{
	struct placement_verdict v = {judge(l, gpu, need, false), 0};
	if (v.reason == PLACEMENT_UNSETTLED && !l->accounts[gpu].unsettled_foreign)
		v.job = l->accounts[gpu].unsettled_job;
	if ((v.reason == PLACEMENT_TAKEN && !l->accounts[gpu].alone_foreign) || v.reason == PLACEMENT_OCCUPIED)
		v.job = l->accounts[gpu].some_job;
	if (l->cluster) {
		enum placement_reason node = judge_node(l, ledger_node_of(l, gpu), job, need, r, false);
		bool more = v.reason == PLACEMENT_FITS || node == PLACEMENT_NODE_AWAY || node == PLACEMENT_NODE_TIME;
		if (node != PLACEMENT_FITS && more)
			return (struct placement_verdict){node, 0};
	}
	if (v.reason == PLACEMENT_FITS && r && r->active && r->job != job && is_in(r->gpus, r->num_gpus, gpu))
		v = (struct placement_verdict){PLACEMENT_RESERVED, r->job};
	return v;
}

/* Whether waiting is useless. */
static bool is_final(const struct ledger *l, size_t gpu, enum placement_reason reason)
{
	return reason == PLACEMENT_QUARANTINED || reason == PLACEMENT_TOO_SMALL || reason == PLACEMENT_SPLIT ||
	       reason == PLACEMENT_MIG || reason == PLACEMENT_PINNED ||
	       (reason == PLACEMENT_UNHEALTHY && l->accounts[gpu].gpu->health == GD_GPU_HEALTH_LOST);
}

/* ---- The machine itself ---------------------------------------------------- */

enum placement_host placement_judge_host(
	const struct ledger *l, uint64_t job, const struct placement_need *need, const struct placement_reservation *r)
{
	bool limited = l->host_bytes && need->host_bytes, counted = l->cpus && need->cpus;
	bool others = r && r->host_active && r->host_job != job;
	if ((limited && need->host_bytes > l->host_bytes) || (counted && need->cpus > l->cpus))
		return PLACEMENT_HOST_TOO_SMALL;
	if (limited && need->host_bytes > left_of(l->host_bytes, l->host_promised_bytes, 0))
		return PLACEMENT_HOST_MEMORY;
	if (counted && need->cpus > left_of(l->cpus, l->cpus_promised, 0))
		return PLACEMENT_HOST_CPUS;
	if (others && limited && need->host_bytes > left_of(l->host_bytes, l->host_promised_bytes, r->host_bytes))
		return PLACEMENT_HOST_RESERVED;
	if (others && counted && need->cpus > left_of(l->cpus, l->cpus_promised, r->cpus))
		return PLACEMENT_HOST_RESERVED;
	return PLACEMENT_HOST_FITS;
}

/* For a job with GPUs: on the node of its reserved GPUs. For a job without: on the first node that is large enough. */
static void reserve_node(
	struct placement_reservation *r, const struct ledger *l, uint64_t job, const struct placement_need *need)
{
	int node = -1;
	if (r->host_active || !(need->cpus || need->host_bytes))
		return;
	if (r->active && r->job == job && r->num_gpus > 0)
		node = ledger_node_of(l, (size_t)r->gpus[0]);
	for (size_t i = 0; need->num_gpus == 0 && node < 0 && i < l->num_nodes; i++)
		if (judge_node(l, (int)i, job, need, NULL, true) == PLACEMENT_FITS)
			node = (int)i;
	if (node < 0)
		return;
	r->host_active = true;
	r->host_job = job;
	r->host_node = node;
	r->host_bytes = need->host_bytes;
	r->cpus = need->cpus;
}

void placement_reserve_host(
	struct placement_reservation *r, const struct ledger *l, uint64_t job, const struct placement_need *need)
{
	if (l->cluster) {
		reserve_node(r, l, job, need);
		return;
	}
	enum placement_host host = placement_judge_host(l, job, need, NULL);
	bool lacks = host == PLACEMENT_HOST_MEMORY || host == PLACEMENT_HOST_CPUS;
	/* When its reserved GPUs become free, the job must not wait for CPUs that other jobs have taken meanwhile. */
	bool follows = r->active && r->job == job && host == PLACEMENT_HOST_FITS && (need->cpus || need->host_bytes);
	if (r->host_active || !(lacks || follows))
		return;
	r->host_active = true;
	r->host_job = job;
	r->host_bytes = need->host_bytes;
	r->cpus = need->cpus;
}

/* ---- Choosing ------------------------------------------------------------ */

/* Most jobs use one GPU, most machines have eight: no allocation for them. */
#define FEW 64

/* A candidate GPU and its ranking criteria. */
struct candidate {
	int gpu;
	enum gd_vendor vendor;
	bool fits;
	bool kept;
	unsigned jobs;
	uint64_t free_bytes;
};

/* Most free memory first. */
static int compare_free(const void *x, const void *y)
{
	const struct candidate *a = x, *b = y;
	if (a->free_bytes != b->free_bytes)
		return a->free_bytes > b->free_bytes ? -1 : 1;
	return a->gpu < b->gpu ? -1 : 1;
}

/* Soonest ready first. */
static int compare_ready(const void *x, const void *y)
{
	const struct candidate *a = x, *b = y;
	if (a->fits != b->fits)
		return a->fits ? -1 : 1;
	if (a->kept != b->kept)
		return a->kept ? -1 : 1;
	if (a->jobs != b->jobs)
		return a->jobs < b->jobs ? -1 : 1;
	return compare_free(x, y);
}

static size_t count_vendor(const struct candidate *c, size_t count, enum gd_vendor vendor)
{
	size_t n = 0;
	for (size_t i = 0; i < count; i++)
		n += c[i].vendor == vendor;
	return n;
}

/* The first `want` candidates of the vendor with the best candidate, of those that have enough; false if none has. */
static bool pick(const struct candidate *c, size_t count, size_t want, int *ret_gpus)
{
	for (size_t i = 0; i < count; i++) {
		if (count_vendor(c + i, count - i, c[i].vendor) < want)
			continue;
		for (size_t k = i, n = 0; n < want; k++)
			if (c[k].vendor == c[i].vendor)
				ret_gpus[n++] = c[k].gpu;
		return true;
	}
	return false;
}

/* The same, but picks GPUs of the vendor that are close to each other, if more than one is wanted. */
static bool pick_close(const struct ledger *l, const struct candidate *c, size_t count, size_t want, int *ret_gpus)
{
	int few[FEW];
	if (!pick(c, count, want, ret_gpus))
		return false;
	if (want < 2 || want == count || count > FEW)
		return true;
	enum gd_vendor vendor = l->accounts[ret_gpus[0]].gpu->vendor;
	size_t n = 0;
	for (size_t i = 0; i < count; i++)
		if (c[i].vendor == vendor)
			few[n++] = c[i].gpu;
	topology_choose(l->gpus, few, n, want, ret_gpus);
	return true;
}

/* The same in a cluster: on the node of the first candidate whose node has enough GPUs. Reorders c. */
static bool pick_on_node(
	const struct ledger *l, struct candidate *c, size_t count, size_t want, bool close, int *ret_gpus)
{
	for (size_t begin = 0; begin < count;) {
		/* Move the candidates on the first one's node to the front, in their order. */
		int node = ledger_node_of(l, (size_t)c[begin].gpu);
		size_t end = begin;
		for (size_t i = begin; i < count; i++) {
			if (ledger_node_of(l, (size_t)c[i].gpu) != node)
				continue;
			struct candidate it = c[i];
			memmove(&c[end + 1], &c[end], (i - end) * sizeof(*c));
			c[end++] = it;
		}
		bool found = close ? pick_close(l, c + begin, end - begin, want, ret_gpus)
				   : pick(c + begin, end - begin, want, ret_gpus);
		if (found)
			return true;
		begin = end;
	}
	return false;
}

static bool pick_here(const struct ledger *l, struct candidate *c, size_t count, size_t want, bool close, int *ret_gpus)
{
	if (l->cluster)
		return pick_on_node(l, c, count, want, close, ret_gpus);
	return close ? pick_close(l, c, count, want, ret_gpus) : pick(c, count, want, ret_gpus);
}

static struct candidate candidate_of(const struct ledger *l, size_t gpu)
{
	const struct ledger_account *a = &l->accounts[gpu];
	return (struct candidate){
		.gpu = (int)gpu,
		.vendor = a->gpu->vendor,
		.jobs = a->jobs,
		.free_bytes = a->known ? a->free_bytes : 0,
	};
}

int placement_choose_node(const struct ledger *l, uint64_t job, const struct placement_need *need,
	const struct placement_reservation *reservation)
{
	int best = -1;
	uint64_t most = 0;
	for (size_t i = 0; i < l->num_nodes; i++) {
		const struct ledger_node *n = &l->nodes[i];
		uint64_t left = n->cpus ? left_of(n->cpus, n->cpus_promised, 0) : UINT64_MAX;
		if (judge_node(l, (int)i, job, need, reservation, false) != PLACEMENT_FITS ||
			(best >= 0 && left <= most))
			continue;
		best = (int)i;
		most = left;
	}
	return best;
}

bool placement_is_possible(const struct ledger *l, const struct placement_need *need)
{
	if (l->cluster)
		return true;
	if (placement_judge_host(l, 0, need, NULL) == PLACEMENT_HOST_TOO_SMALL)
		return false;
	if (need->num_gpus == 0)
		return true;
	for (size_t g = 0; g < l->num_gpus; g++) {
		size_t same = 0;
		for (size_t k = 0; k < l->num_gpus; k++)
			same += l->accounts[k].gpu->vendor == l->accounts[g].gpu->vendor &&
				!is_final(l, k, judge_card(&l->accounts[k], need));
		if (same >= need->num_gpus)
			return true;
	}
	return false;
}

int placement_choose(const struct ledger *l, uint64_t job, const struct placement_need *need,
	const struct placement_reservation *reservation, int *ret_gpus, struct placement_verdict *verdicts)
{
	struct candidate few[FEW], *c = few;
	if (l->num_gpus > FEW) {
		c = calloc(l->num_gpus, sizeof(*c));
		if (!c)
			return -ENOMEM;
	}
	size_t count = 0;
	for (size_t g = 0; g < l->num_gpus; g++) {
		struct placement_verdict v = verdict_of(l, g, job, need, reservation);
		if (v.reason == PLACEMENT_FITS)
			c[count++] = candidate_of(l, g);
		if (verdicts)
			verdicts[g] = v;
	}
	if (count > 1)
		qsort(c, count, sizeof(*c), compare_free);
	bool found = need->num_gpus == 0 ? !l->cluster || placement_choose_node(l, job, need, reservation) >= 0
					 : pick_here(l, c, count, need->num_gpus, true, ret_gpus);
	for (size_t i = 0; verdicts && !found && count >= need->num_gpus && i < count; i++)
		verdicts[c[i].gpu].reason = l->cluster ? PLACEMENT_APART : PLACEMENT_VENDOR;
	if (c != few)
		free(c);
	if (found && placement_judge_host(l, job, need, reservation) == PLACEMENT_HOST_FITS)
		return 0;
	return placement_is_possible(l, need) ? -EAGAIN : -ENODEV;
}

/* The most memory with which a job would get this GPU; also 0 if the job would not get it with any amount. */
static uint64_t room_on(
	const struct ledger *l, size_t gpu, struct placement_need need, const struct placement_reservation *r)
{
	const struct ledger_account *a = &l->accounts[gpu];
	need.memory_bytes = 0;
	if (verdict_of(l, gpu, 0, &need, r).reason != PLACEMENT_FITS)
		return 0;
	uint64_t total = a->gpu->known & GD_GPU_KNOWN_MEMORY_TOTAL ? a->gpu->memory_total_bytes : UINT64_MAX;
	return !a->known || a->free_bytes > total ? total : a->free_bytes;
}

uint64_t placement_beyond(
	const struct ledger *l, const struct placement_need *need, const struct placement_reservation *r)
{
	uint64_t most = 0;
	if (need->num_gpus == 0)
		return 0; /* all jobs of this kind wait for the machine */
	if (!r || !r->active)
		return need->memory_bytes;
	/* For a job with several GPUs of one vendor, the true limit may be lower: jobs in between are checked. */
	for (size_t g = 0; g < l->num_gpus; g++) {
		uint64_t room = room_on(l, g, *need, r);
		most = room > most ? room : most;
	}
	return most < need->memory_bytes ? most + 1 : need->memory_bytes;
}

/* ---- Reserving ----------------------------------------------------------- */

void placement_reservation_finish(struct placement_reservation *r)
{
	free(r->gpus);
	*r = (struct placement_reservation){0};
}

void placement_rewind(struct placement_reservation *r)
{
	r->active = r->host_active = false;
}

static bool is_within_reach(const struct ledger *l, size_t gpu, uint64_t job, const struct placement_need *need)
{
	return judge(l, gpu, need, true) == PLACEMENT_FITS &&
	       (!l->cluster || judge_node(l, ledger_node_of(l, gpu), job, need, NULL, true) == PLACEMENT_FITS);
}

size_t placement_within_reach(const struct ledger *l, uint64_t job, const struct placement_need *need)
{
	size_t count = 0;
	for (size_t g = 0; g < l->num_gpus; g++)
		count += is_within_reach(l, g, job, need);
	return count;
}

int placement_reserve(
	struct placement_reservation *r, const struct ledger *l, uint64_t job, const struct placement_need *need)
{
	if (need->num_gpus == 0 || need->num_gpus > l->num_gpus)
		return 0;
	struct candidate *c = calloc(l->num_gpus, sizeof(*c));
	if (!c)
		return -ENOMEM;
	if (array_reserve(r->gpus, &r->capacity, need->num_gpus) < 0) {
		free(c);
		return -ENOMEM;
	}
	size_t count = 0;
	for (size_t g = 0; g < l->num_gpus; g++) {
		if (!is_within_reach(l, g, job, need))
			continue;
		c[count] = candidate_of(l, g);
		c[count].fits = judge(l, g, need, false) == PLACEMENT_FITS;
		c[count].kept = r->job == job && is_in(r->gpus, r->num_gpus, g);
		count++;
	}
	if (count > 1)
		qsort(c, count, sizeof(*c), compare_ready);
	/* A job for which nothing can be reserved leaves GPUs alone that are draining for another job. */
	r->active = pick_here(l, c, count, need->num_gpus, false, r->gpus);
	if (r->active) {
		r->num_gpus = need->num_gpus;
		r->job = job;
	}
	free(c);
	return 0;
}
