/* SPDX-License-Identifier: MIT */
/* The jobs that hold GPUs: a list in the order in which they were added, and a hash table by id. */
#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "queue/schedule/scheduler_private.h"

#define SMALLEST_TABLE 64

static struct holder **slot_of(const struct holders *all, uint64_t id)
{
	return &all->table[hash_seeded(&id, sizeof(id), all->seed) & (all->table_size - 1)];
}

struct holder *scheduler_find(const struct scheduler *s, uint64_t id)
{
	if (s->holders.count == 0)
		return NULL;
	for (struct holder *h = *slot_of(&s->holders, id); h; h = h->next_in_slot)
		if (h->id == id && !h->ended)
			return h;
	return NULL;
}

bool scheduler_has(const struct scheduler *s, uint64_t id)
{
	return scheduler_find(s, id) != NULL;
}

/* The newest first, because an id can be there more than once. */
static void put_into_table(struct holders *all, struct holder *h)
{
	struct holder **slot = slot_of(all, h->id);
	h->next_in_slot = *slot;
	*slot = h;
}

static int table_reserve(struct holders *all)
{
	if (all->count < all->table_size)
		return 0;
	size_t size = all->table_size ? 2 * all->table_size : SMALLEST_TABLE;
	struct holder **table = calloc(size, sizeof(*table));
	if (!table)
		return -ENOMEM;
	free(all->table);
	all->table = table;
	all->table_size = size;
	if (!all->seed)
		all->seed = hash_seed();
	for (struct holder *h = all->first; h; h = h->next)
		put_into_table(all, h);
	return 0;
}

/* Decisions depend on the order of the list, so it must not depend on the table. */
static void append(struct holders *all, struct holder *h)
{
	h->previous = all->last;
	if (all->last)
		all->last->next = h;
	else
		all->first = h;
	all->last = h;
	all->count++;
	put_into_table(all, h);
}

struct holder *scheduler_hold(
	struct scheduler *s, uint64_t id, const struct placement_need *need, const int *gpus, size_t num_gpus)
{
	struct holder *h = calloc(1, sizeof(*h) + num_gpus * sizeof(int));
	if (!h || table_reserve(&s->holders) < 0) {
		free(h);
		return NULL;
	}
	h->id = id;
	h->need = *need;
	h->need.pin = NULL;
	for (size_t i = 0; i < num_gpus; i++)
		if (gpus[i] >= 0)
			h->gpus[h->num_gpus++] = gpus[i];
	h->need.over_ms = 0;
	h->node = -1;
	if (h->num_gpus > 0 && (size_t)h->gpus[0] < s->num_gpu_nodes)
		h->node = s->gpu_nodes[h->gpus[0]];
	append(&s->holders, h);
	return h;
}

void scheduler_let_go(struct scheduler *s, struct holder *h)
{
	struct holders *all = &s->holders;
	struct holder **link = slot_of(all, h->id);
	while (*link != h)
		link = &(*link)->next_in_slot;
	*link = h->next_in_slot;
	*(h->previous ? &h->previous->next : &all->first) = h->next;
	*(h->next ? &h->next->previous : &all->last) = h->previous;
	all->count--;
	free(h->pids);
	free(h);
	scheduler_touch(s);
}

void scheduler_forget_holders(struct scheduler *s)
{
	while (s->holders.last)
		scheduler_let_go(s, s->holders.last);
	free(s->holders.table);
	s->holders = (struct holders){0};
}
