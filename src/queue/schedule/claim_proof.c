/* SPDX-License-Identifier: MIT */
#include "queue/schedule/claim_proof.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/process.h"

/* A user with subordinate ids could claim under thousands of ids. */
#define MAX_PROOFS 16384

/* Memory counts as in use from this fraction of the GPU on; drivers and displays always use a little. */
#define IN_USE_PART 16

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
	return strcmp(x->gpu, y->gpu);
}

/* The position of the record, or where to insert it. */
static size_t place_of(const struct claim_proofs *p, uid_t user, const char *gpu, bool *ret_found)
{
	struct claim_proof key = {.user = user};
	snprintf(key.gpu, sizeof(key.gpu), "%s", gpu);
	size_t at = array_lower_bound(&key, p->proofs, p->count, sizeof(key), compare);
	*ret_found = at < p->count && compare(&key, &p->proofs[at]) == 0;
	return at;
}

static struct claim_proof *find(const struct claim_proofs *p, uid_t user, const char *gpu)
{
	bool found;
	size_t at = place_of(p, user, gpu, &found);
	return found ? &p->proofs[at] : NULL;
}

/* The record for this user and GPU, created if missing; NULL: no space. */
static struct claim_proof *find_or_add(struct claim_proofs *p, uid_t user, const char *gpu)
{
	bool found;
	size_t at = place_of(p, user, gpu, &found);
	if (found)
		return &p->proofs[at];
	if (p->count == MAX_PROOFS || array_reserve(p->proofs, &p->capacity, p->count + 1) < 0)
		return NULL;
	memmove(&p->proofs[at + 1], &p->proofs[at], (p->count - at) * sizeof(*p->proofs));
	p->count++;
	p->proofs[at] = (struct claim_proof){.user = user};
	snprintf(p->proofs[at].gpu, sizeof(p->proofs[at].gpu), "%s", gpu);
	return &p->proofs[at];
}

static uint64_t time_since(uint64_t then_ns, uint64_t now_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

/*
 * A user with subordinate ids can fill the table with short claims, and then those of users without a record would not
 * count. Such a user does not need old records to be forgotten, so this costs little: forget them early.
 */
static void forget_old(struct claim_proofs *p, uint64_t now_ns)
{
	uint64_t age_ns = p->count > MAX_PROOFS / 2 ? CLAIM_PROOF_GAP_NS : CLAIM_PROOF_FORGET_NS;
	size_t kept = 0;
	for (size_t i = 0; i < p->count; i++)
		if (time_since(p->proofs[i].seen_ns, now_ns) < age_ns)
			p->proofs[kept++] = p->proofs[i];
	p->count = kept;
}

static void see_claim(struct claim_proof *proof, uint64_t now_ns)
{
	uint64_t since_ns = proof->seen_ns ? time_since(proof->seen_ns, now_ns) : 0;
	proof->spent_ns += since_ns < CLAIM_PROOF_GAP_NS ? since_ns : CLAIM_PROOF_GAP_NS;
	proof->seen_ns = now_ns;
}

static bool is_in_use(const struct gd_gpu *gpu)
{
	const uint64_t both = GD_GPU_KNOWN_MEMORY_TOTAL | GD_GPU_KNOWN_MEMORY_USED;
	return (gpu->known & both) == both && gpu->memory_used_bytes >= gpu->memory_total_bytes / IN_USE_PART;
}

/*
 * Users with a process on the GPU have provided their proof. If the owner of a process is hidden, it may be any user's:
 * then memory in use is sufficient, as if the driver reported no processes.
 */
static void see_processes(struct claim_proofs *p, uint64_t now_ns, const struct gd_gpu *gpu)
{
	bool hidden = false;
	char key[CLAIM_KEY_ROOM], path[32];
	for (size_t i = 0; i < gpu->num_processes && claim_gpu_key(gpu, key); i++) {
		struct stat st;
		snprintf(path, sizeof(path), "/proc/%" PRId64, gpu->processes[i]->pid);
		struct claim_proof *proof = stat(path, &st) == 0 ? find(p, st.st_uid, key) : NULL;
		if (proof) {
			proof->spent_ns = 0;
			proof->proved_ns = now_ns;
		}
		hidden = hidden || process_hides(gpu->processes[i]->pid, PROCESS_OWNER);
	}
	for (size_t i = 0; hidden && is_in_use(gpu) && i < p->count; i++)
		p->proofs[i].in_use = p->proofs[i].in_use || strcmp(p->proofs[i].gpu, key) == 0;
}

/* Updates one record for each other user and GPU. */
static int see_claims(struct claim_proofs *p, uint64_t now_ns, const struct claims_list *claims,
	const struct gd_gpu_list *gpus, bool foreign_pids)
{
	for (size_t i = 0; i < claims->count; i++) {
		const struct claim_other *c = &claims->claims[i];
		for (size_t k = 0; k < c->info.num_gpus && !is_believed(c->owner); k++) {
			int at = claim_gpu_position(gpus, c->info.gpus[k]);
			struct claim_proof *proof = at < 0 ? NULL : find_or_add(p, c->owner, c->info.gpus[k]);
			if (at >= 0 && !proof)
				return -ENOMEM;
			if (!proof)
				continue;
			const struct gd_gpu *gpu = gpus->gpus[at];
			bool is_told = !foreign_pids && (gpu->known & GD_GPU_KNOWN_PROCESSES);
			see_claim(proof, now_ns);
			proof->in_use = !is_told && is_in_use(gpu);
		}
	}
	return 0;
}

int claim_proofs_update(struct claim_proofs *p, uint64_t now_ns, const struct claims_list *claims,
	const struct gd_gpu_list *gpus, bool foreign_pids)
{
	forget_old(p, now_ns);
	int r = see_claims(p, now_ns, claims, gpus, foreign_pids);
	for (size_t g = 0; p->count > 0 && !foreign_pids && g < gpus->count; g++)
		if (gpus->gpus[g]->known & GD_GPU_KNOWN_PROCESSES)
			see_processes(p, now_ns, gpus->gpus[g]);
	return r;
}

void claim_proofs_finish(struct claim_proofs *p)
{
	free(p->proofs);
	*p = (struct claim_proofs){0};
}

int claim_proofs_merge(struct claim_proofs *p, const struct claim_proof *other)
{
	struct claim_proof *mine = find_or_add(p, other->user, other->gpu);
	if (!mine)
		return -ENOMEM;
	if (other->proved_ns > mine->proved_ns ||
		(other->proved_ns == mine->proved_ns && other->spent_ns > mine->spent_ns)) {
		mine->proved_ns = other->proved_ns;
		mine->spent_ns = other->spent_ns;
	}
	if (other->seen_ns > mine->seen_ns)
		mine->seen_ns = other->seen_ns;
	return 0;
}

bool claim_proofs_count(const struct claim_proofs *p, uint64_t now_ns, uid_t user, const char *gpu)
{
	if (is_believed(user))
		return true;
	const struct claim_proof *proof = find(p, user, gpu);
	/* If the table is full, a claim without a record does not count: its time would never run out. */
	if (!proof)
		return p->count < MAX_PROOFS;
	return proof->in_use || proof->spent_ns + time_since(proof->seen_ns, now_ns) < CLAIM_PROOF_NS;
}
