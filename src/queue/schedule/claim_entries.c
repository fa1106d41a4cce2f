/* SPDX-License-Identifier: MIT */
#include "queue/schedule/claim_entries.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/process.h"

/* The root process of the claim's job. It must belong to the claim's owner: otherwise it could be one of ours. */
static pid_t root_of(const struct claim_other *c)
{
	char path[32];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%" PRId64, c->info.pid);
	return c->info.pid > 0 && stat(path, &st) == 0 && st.st_uid == c->owner ? (pid_t)c->info.pid : 0;
}

/* If it fails for lack of memory, the entries have no PIDs: their promises count in full. */
static void find_processes(
	const struct gd_gpu_list *gpus, struct claim_entry *entries, struct ledger_job *jobs, size_t n)
{
	cleanup_(freep) struct gpu_user **users = n ? malloc(n * sizeof(struct gpu_user *)) : NULL;
	for (size_t i = 0; i < n; i++) {
		entries[i].user.num_pids = 0;
		if (users)
			users[i] = &entries[i].user;
	}
	if (users)
		gpu_users_find(gpus, users, n);
	for (size_t i = 0; i < n; i++) {
		jobs[i].pids = entries[i].user.pids;
		jobs[i].num_pids = entries[i].user.num_pids;
	}
}

static bool hides_parents(const struct gd_gpu *gpu)
{
	for (size_t i = 0; i < gpu->num_processes; i++)
		if (process_hides(gpu->processes[i]->pid, PROCESS_PARENT))
			return true;
	return false;
}

static bool is_on(const struct ledger_job *job, size_t gpu)
{
	for (size_t i = 0; i < job->num_gpus; i++)
		if ((size_t)job->gpus[i] == gpu)
			return true;
	return false;
}

/* Marks the claims of other users on GPUs with processes that cannot be attributed. */
static void find_hidden(const struct gd_gpu_list *gpus, struct ledger_job *jobs, size_t n)
{
	for (size_t g = 0; n > 0 && g < gpus->count; g++) {
		bool hides = hides_parents(gpus->gpus[g]);
		for (size_t i = 0; hides && i < n; i++)
			if (jobs[i].claimant->user != geteuid() && is_on(&jobs[i], g))
				jobs[i].hidden = true;
	}
}

size_t claim_entries(const struct claims_list *list, const struct gd_gpu_list *gpus, const struct claim_proofs *proofs,
	struct claim_entry *entries, struct ledger_job *jobs)
{
	uint64_t now_ns = clock_wall_ns();
	size_t n = 0;
	for (size_t i = 0; i < list->count; i++) {
		const struct claim_other *c = &list->claims[i];
		struct claim_entry *e = &entries[n];
		e->num_gpus = 0;
		for (size_t k = 0; k < c->info.num_gpus; k++) {
			int at = claim_gpu_position(gpus, c->info.gpus[k]);
			if (at >= 0 && claim_proofs_count(proofs, now_ns, c->owner, c->info.gpus[k]))
				e->gpus[e->num_gpus++] = at;
		}
		if (e->num_gpus == 0)
			continue;
		e->user.root = root_of(c);
		e->claimant = (struct ledger_claimant){.user = c->owner, .job = c->info.job, .pid = c->holder};
		snprintf(e->claimant.queue, sizeof(e->claimant.queue), "%s", c->info.queue);
		jobs[n++] = (struct ledger_job){.foreign = true,
			.claimant = &e->claimant,
			.declared = c->info.declared,
			.settled = c->info.settled,
			.alone = c->info.exclusive,
			.promised_bytes = c->info.promised_bytes,
			.gpus = e->gpus,
			.num_gpus = e->num_gpus};
	}
	find_processes(gpus, entries, jobs, n);
	find_hidden(gpus, jobs, n);
	return n;
}
