/* SPDX-License-Identifier: MIT */
#include "queue/schedule/claim_entries.h"

#include <string.h>

#define NO_GPU (-1)

static int position_of(const struct gd_gpu_list *gpus, const char *key)
{
	char mine[CLAIM_KEY_ROOM];
	for (size_t g = 0; g < gpus->count; g++)
		if (claim_gpu_key(gpus->gpus[g], mine) && strcmp(mine, key) == 0)
			return (int)g;
	return NO_GPU;
}

size_t claim_entries(const struct claims_list *list, const struct gd_gpu_list *gpus, struct claim_entry *entries,
	struct ledger_job *jobs)
{
	size_t n = 0;
	for (size_t i = 0; i < list->count; i++) {
		const struct claim_other *c = &list->claims[i];
		struct claim_entry *e = &entries[n];
		e->num_gpus = 0;
		for (size_t k = 0; k < c->info.num_gpus; k++) {
			int at = position_of(gpus, c->info.gpus[k]);
			if (at != NO_GPU)
				e->gpus[e->num_gpus++] = at;
		}
		if (e->num_gpus == 0)
			continue;
		e->user.root = c->info.pid > 0 ? (pid_t)c->info.pid : 0;
		gpu_users_find(gpus, &(struct gpu_user *){&e->user}, 1);
		jobs[n++] = (struct ledger_job){.foreign = true,
			.declared = c->info.declared,
			.settled = c->info.settled,
			.promised_bytes = c->info.promised_bytes,
			.pid = c->holder,
			.gpus = e->gpus,
			.num_gpus = e->num_gpus,
			.pids = e->user.pids,
			.num_pids = e->user.num_pids};
	}
	return n;
}
