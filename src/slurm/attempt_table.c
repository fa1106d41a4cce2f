/* SPDX-License-Identifier: MIT */
#include "slurm/attempt_table.h"

#include <stdlib.h>

void attempt_table_finish(struct attempt_table *t)
{
	free(t->entries);
	*t = (struct attempt_table){0};
}

static struct attempt_entry *place_of(const struct attempt_table *t, uint64_t job)
{
	size_t mask = t->capacity - 1;
	size_t i = (size_t)((job * 0x9e3779b97f4a7c15ull) >> 32) & mask;
	while (t->entries[i].job && t->entries[i].job != job)
		i = (i + 1) & mask;
	return &t->entries[i];
}

struct attempt_entry *attempt_table_find(const struct attempt_table *t, uint64_t job)
{
	struct attempt_entry *e = t->capacity ? place_of(t, job) : NULL;
	return e && e->job ? e : NULL;
}

static int grow(struct attempt_table *t)
{
	struct attempt_table larger = {.capacity = t->capacity ? t->capacity * 2 : 64, .count = t->count};
	larger.entries = calloc(larger.capacity, sizeof(*larger.entries));
	if (!larger.entries)
		return -1;
	for (size_t i = 0; i < t->capacity; i++)
		if (t->entries[i].job)
			*place_of(&larger, t->entries[i].job) = t->entries[i];
	free(t->entries);
	*t = larger;
	return 0;
}

struct attempt_entry *attempt_table_add(struct attempt_table *t, uint64_t job)
{
	if (t->count * 2 >= t->capacity && grow(t) < 0)
		return NULL;
	struct attempt_entry *e = place_of(t, job);
	if (!e->job) {
		e->job = job;
		t->count++;
	}
	return e;
}
