/* SPDX-License-Identifier: MIT */
#include "queue/schedule/claim_entries.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The root process of the claim's job. It must belong to the claim's owner: otherwise it could be one of ours. */
static pid_t root_of(const struct claim_other *c)
{
	char path[32];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%" PRId64, c->info.pid);
	return c->info.pid > 0 && stat(path, &st) == 0 && st.st_uid == c->owner ? (pid_t)c->info.pid : 0;
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
		gpu_users_find(gpus, &(struct gpu_user *){&e->user}, 1);
		e->claimant = (struct ledger_claimant){.user = c->owner, .job = c->info.job, .pid = c->holder};
		snprintf(e->claimant.queue, sizeof(e->claimant.queue), "%s", c->info.queue);
		jobs[n++] = (struct ledger_job){.foreign = true,
			.claimant = &e->claimant,
			.declared = c->info.declared,
			.settled = c->info.settled,
			.alone = c->info.exclusive,
			.promised_bytes = c->info.promised_bytes,
			.gpus = e->gpus,
			.num_gpus = e->num_gpus,
			.pids = e->user.pids,
			.num_pids = e->user.num_pids};
	}
	return n;
}
