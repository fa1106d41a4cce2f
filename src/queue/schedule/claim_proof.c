/* SPDX-License-Identifier: MIT */
#include "queue/schedule/claim_proof.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"

int claim_gpu_position(const struct gd_gpu_list *gpus, const char *key)
{
	char mine[CLAIM_KEY_ROOM];
	for (size_t g = 0; g < gpus->count; g++)
		if (claim_gpu_key(gpus->gpus[g], mine) && strcmp(mine, key) == 0)
			return (int)g;
	return -1;
}

static bool is_believed(uid_t user)
{
	return user == 0 || user == geteuid();
}

static int compare(const void *a, const void *b)
{
	const struct claim_proof *x = a, *y = b;
	if (x->user != y->user)
		return x->user < y->user ? -1 : 1;
	return x->gpu < y->gpu ? -1 : x->gpu > y->gpu;
}

static struct claim_proof *find(const struct claim_proofs *p, uid_t user, int gpu)
{
	struct claim_proof key = {.user = user, .gpu = gpu};
	return p->count ? bsearch(&key, p->proofs, p->count, sizeof(key), compare) : NULL;
}

/* One for each user and GPU, and what is known of it from before. */
static int collect(const struct claim_proofs *before, uint64_t now_ns, const struct claims_list *claims,
	const struct gd_gpu_list *gpus, struct claim_proofs *ret)
{
	size_t capacity = 0, kept = 0;
	for (size_t i = 0; i < claims->count; i++) {
		const struct claim_other *c = &claims->claims[i];
		for (size_t k = 0; k < c->info.num_gpus && !is_believed(c->owner); k++) {
			int gpu = claim_gpu_position(gpus, c->info.gpus[k]);
			if (gpu < 0)
				continue;
			int r = array_reserve(ret->proofs, &capacity, ret->count + 1);
			if (r < 0)
				return r;
			const struct claim_proof *old = find(before, c->owner, gpu);
			ret->proofs[ret->count++] = (struct claim_proof){c->owner, gpu, old ? old->since_ns : now_ns};
		}
	}
	if (ret->count > 1)
		qsort(ret->proofs, ret->count, sizeof(*ret->proofs), compare);
	for (size_t i = 0; i < ret->count; i++)
		if (kept == 0 || compare(&ret->proofs[kept - 1], &ret->proofs[i]) != 0)
			ret->proofs[kept++] = ret->proofs[i];
	ret->count = kept;
	return 0;
}

/* Users with a process on the GPU have given their proof. */
static void see_processes(struct claim_proofs *p, uint64_t now_ns, const struct gd_gpu *gpu, int position)
{
	for (size_t i = 0; i < gpu->num_processes; i++) {
		char path[32];
		struct stat st;
		snprintf(path, sizeof(path), "/proc/%" PRId64, gpu->processes[i]->pid);
		struct claim_proof *proof = stat(path, &st) == 0 ? find(p, st.st_uid, position) : NULL;
		if (proof)
			proof->since_ns = now_ns;
	}
}

int claim_proofs_update(struct claim_proofs *p, uint64_t now_ns, const struct claims_list *claims,
	const struct gd_gpu_list *gpus, bool foreign_pids)
{
	struct claim_proofs fresh = {0};
	int r = collect(p, now_ns, claims, gpus, &fresh);
	if (r < 0) {
		claim_proofs_finish(&fresh);
		return r;
	}
	for (size_t g = 0; fresh.count > 0 && !foreign_pids && g < gpus->count; g++)
		if (gpus->gpus[g]->known & GD_GPU_KNOWN_PROCESSES)
			see_processes(&fresh, now_ns, gpus->gpus[g], (int)g);
	for (size_t i = 0; i < fresh.count; i++)
		if (foreign_pids || !(gpus->gpus[fresh.proofs[i].gpu]->known & GD_GPU_KNOWN_PROCESSES))
			fresh.proofs[i].since_ns = now_ns;
	claim_proofs_finish(p);
	*p = fresh;
	return 0;
}

void claim_proofs_finish(struct claim_proofs *p)
{
	free(p->proofs);
	*p = (struct claim_proofs){0};
}

bool claim_proofs_count(const struct claim_proofs *p, uint64_t now_ns, uid_t user, int gpu)
{
	const struct claim_proof *proof = is_believed(user) ? NULL : find(p, user, gpu);
	return !proof || now_ns - proof->since_ns < CLAIM_PROOF_NS;
}
