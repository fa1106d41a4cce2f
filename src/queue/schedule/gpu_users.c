/* SPDX-License-Identifier: MIT */
#include "queue/schedule/gpu_users.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/process.h"

/* The initial PID namespace, in which the driver's PIDs are ours. */
#define FIRST_PIDNS "4026531836"

#define MOST_ANCESTORS 64
#define FIRST_SLOTS    256 /* a power of two, as every later size */

/* ---- Parents ---------------------------------------------------------------------------- */

struct parent {
	pid_t pid; /* 0: a free slot */
	pid_t parent;
};

/*
 * Parents that were read during one search, as a hash table: each process is read once, even if it is on many GPUs or
 * is the ancestor of many. Other users determine both numbers.
 */
struct parents {
	struct parent *slots;
	size_t count, size;
};

static void parents_finish(struct parents *p)
{
	free(p->slots);
}

static struct parent *find_slot(const struct parents *p, pid_t pid)
{
	size_t at = (size_t)pid * 2654435761u & (p->size - 1);
	while (p->slots[at].pid && p->slots[at].pid != pid)
		at = (at + 1) & (p->size - 1);
	return &p->slots[at];
}

static int make_space(struct parents *p)
{
	if (p->size && p->count < p->size / 2)
		return 0;
	struct parents larger = {.count = p->count, .size = p->size ? 2 * p->size : FIRST_SLOTS};
	larger.slots = calloc(larger.size, sizeof(*larger.slots));
	if (!larger.slots)
		return -1;
	for (size_t i = 0; i < p->size; i++)
		if (p->slots[i].pid)
			*find_slot(&larger, p->slots[i].pid) = p->slots[i];
	parents_finish(p);
	*p = larger;
	return 0;
}

/* 0: the process is gone. */
static pid_t parent_of(struct parents *p, pid_t pid)
{
	struct process_info info;
	struct parent *known = p->size ? find_slot(p, pid) : NULL;
	if (known && known->pid)
		return known->parent;
	pid_t parent = process_info(pid, &info) < 0 ? 0 : info.ppid;
	/* If out of memory, the process is read again. */
	if (make_space(p) == 0) {
		*find_slot(p, pid) = (struct parent){pid, parent};
		p->count++;
	}
	return parent;
}

/* ---- Users ------------------------------------------------------------------------------ */

static int compare_root(const void *key, const void *element)
{
	pid_t a = *(const pid_t *)key, b = (*(struct gpu_user *const *)element)->root;
	return (a > b) - (a < b);
}

static int compare_users(const void *a, const void *b)
{
	return compare_root(&(*(struct gpu_user *const *)a)->root, b);
}

/* sorted: by root. Returns the first of several users with the same root. */
static struct gpu_user *owner_of(struct parents *parents, pid_t pid, struct gpu_user *const *sorted, size_t count)
{
	for (int depth = 0; depth < MOST_ANCESTORS && pid > 1; depth++) {
		size_t at = array_lower_bound(&pid, sorted, count, sizeof(*sorted), compare_root);
		if (at < count && sorted[at]->root == pid)
			return sorted[at];
		pid = parent_of(parents, pid);
	}
	return NULL;
}

static void add_pid(struct gpu_user *user, int64_t pid)
{
	for (size_t i = 0; i < user->num_pids; i++)
		if (user->pids[i] == pid)
			return;
	if (user->num_pids < sizeof(user->pids) / sizeof(user->pids[0]))
		user->pids[user->num_pids++] = pid;
}

static void share_pids(struct gpu_user *const *sorted, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (sorted[i]->root > 0 && sorted[i]->root == sorted[i - 1]->root) {
			memcpy(sorted[i]->pids, sorted[i - 1]->pids, sorted[i - 1]->num_pids * sizeof(int64_t));
			sorted[i]->num_pids = sorted[i - 1]->num_pids;
		}
}

void gpu_users_find(const struct gd_gpu_list *gpus, struct gpu_user *const *users, size_t count)
{
	cleanup_(parents_finish) struct parents parents = {0};
	for (size_t i = 0; i < count; i++)
		users[i]->num_pids = 0;
	cleanup_(freep) struct gpu_user **sorted = count ? malloc(count * sizeof(struct gpu_user *)) : NULL;
	if (!sorted)
		return;
	memcpy(sorted, users, count * sizeof(struct gpu_user *));
	qsort(sorted, count, sizeof(struct gpu_user *), compare_users);
	for (size_t g = 0; g < gpus->count; g++)
		for (size_t i = 0; i < gpus->gpus[g]->num_processes; i++) {
			int64_t pid = gpus->gpus[g]->processes[i]->pid;
			struct gpu_user *user = owner_of(&parents, (pid_t)pid, sorted, count);
			if (user)
				add_pid(user, pid);
		}
	share_pids(sorted, count);
}

/* ---- Containers ------------------------------------------------------------------------- */

bool gpu_users_foreign_pids(const struct machine *here)
{
	return strcmp(here->pidns, FIRST_PIDNS) != 0;
}
