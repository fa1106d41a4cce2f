/* SPDX-License-Identifier: MIT */
#include "slurm/node_usage.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/process.h"
#include "queue/schedule/ledger.h"

#define MB (UINT64_C(1) << 20)

void node_usage_begin(struct node_usage *u, const struct gd_gpu *const *gpus, size_t num_gpus)
{
	*u = (struct node_usage){.gpus = calloc(num_gpus + 1, sizeof(*u->gpus))};
	if (!u->gpus || energy_meter_init(&u->energy, num_gpus) < 0)
		return;
	u->num_gpus = num_gpus;
	for (size_t i = 0; i < num_gpus; i++)
		u->gpus[i] = gpus[i];
}

void node_usage_finish(struct node_usage *u)
{
	energy_meter_finish(&u->energy);
	free(u->gpus);
	*u = (struct node_usage){0};
}

/* The keeper is the parent, and processes that leave the job become its children. */
void node_usage_started(struct node_usage *u, int64_t pid)
{
	struct process_info info;
	if (pid > 0 && process_info((pid_t)pid, &info) == 0)
		u->user.root = info.ppid;
}

void node_usage_compare(struct node_usage *a, struct node_usage *b)
{
	for (size_t i = 0; i < a->num_gpus; i++)
		for (size_t k = 0; k < b->num_gpus; k++)
			if (a->gpus[i] == b->gpus[k]) {
				energy_meter_spoil(&a->energy);
				energy_meter_spoil(&b->energy);
			}
}

static const struct gd_gpu *find(const struct gd_gpu_list *now, const struct gd_gpu *gpu)
{
	for (size_t i = 0; i < now->count; i++)
		if (now->gpus[i]->index == gpu->index && now->gpus[i]->mig_index == gpu->mig_index)
			return now->gpus[i];
	return NULL;
}

static bool is_own(const struct node_usage *u, int64_t pid)
{
	for (size_t i = 0; i < u->user.num_pids; i++)
		if (u->user.pids[i] == pid)
			return true;
	/* The process has ended since the driver reported it; most likely it belonged to the job. */
	return pid > 0 && pid <= INT32_MAX && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

/* Slurm has granted the GPU to this pilot alone: processes that cannot be recognized are the job's. */
static bool is_alone(const struct node_usage *u, const struct gd_gpu *g, bool foreign_pids)
{
	if (!(g->known & GD_GPU_KNOWN_PROCESSES))
		return foreign_pids;
	for (size_t i = 0; i < g->num_processes; i++)
		if (!foreign_pids && !is_own(u, g->processes[i]->pid))
			return false;
	return true;
}

void node_usage_sample(struct node_usage *u, const struct gd_gpu_list *now, const struct machine *here)
{
	bool foreign_pids = gpu_users_foreign_pids(here);
	uint64_t now_ns = clock_now_ns(), bytes;
	/* Before the first process is known, its memory cannot be recognized. */
	if (!u->user.root)
		return;
	for (size_t i = 0; i < u->num_gpus; i++) {
		const struct gd_gpu *g = find(now, u->gpus[i]);
		if (!g) {
			energy_meter_spoil(&u->energy);
			continue;
		}
		if (ledger_observed(g, u->user.pids, u->user.num_pids, foreign_pids, &bytes) && bytes > u->peak_bytes)
			u->peak_bytes = bytes;
		if (!is_alone(u, g, foreign_pids))
			energy_meter_spoil(&u->energy);
		energy_meter_read(&u->energy, i, g->known & GD_GPU_KNOWN_ENERGY, g->energy_millijoules, now_ns);
	}
}

bool node_usage_tell(struct node_usage *u, struct keeper_order *ret)
{
	*ret = (struct keeper_order){.kind = KEEPER_ORDER_SEEN,
		.peak_mem_mb = u->peak_bytes ? (int64_t)((u->peak_bytes + MB - 1) / MB) : -1};
	energy_meter_power(&u->energy, &ret->mean_power_mw, &ret->power_span_ms);
	if (ret->peak_mem_mb <= u->told_peak_mb && ret->power_span_ms == u->told_span_ms)
		return false;
	u->told_peak_mb = ret->peak_mem_mb;
	u->told_span_ms = ret->power_span_ms;
	return true;
}
