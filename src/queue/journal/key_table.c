/* SPDX-License-Identifier: MIT */
#include "queue/journal/key_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

struct key_slot {
	const void *key; /* NULL: the slot is free */
	size_t size;
	void *value;
};

void key_table_finish(struct key_table *t)
{
	free(t->slots);
	*t = (struct key_table){0};
}

/* The slot of the key, or the free one where it belongs. At least half of the slots are free. */
static struct key_slot *find_slot(const struct key_table *t, const void *key, size_t size)
{
	size_t i = hash_seeded(key, size, t->seed) & (t->room - 1);
	while (t->slots[i].key && !(t->slots[i].size == size && memcmp(t->slots[i].key, key, size) == 0))
		i = (i + 1) & (t->room - 1);
	return &t->slots[i];
}

static int grow(struct key_table *t)
{
	struct key_table larger = {
		.room = t->room ? t->room * 2 : 16, .count = t->count, .seed = t->seed ? t->seed : hash_seed()};
	larger.slots = calloc(larger.room, sizeof(*larger.slots));
	if (!larger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < t->room; i++)
		if (t->slots[i].key)
			*find_slot(&larger, t->slots[i].key, t->slots[i].size) = t->slots[i];
	free(t->slots);
	*t = larger;
	return 0;
}

void *key_table_get(const struct key_table *t, const void *key, size_t size)
{
	return t->room ? find_slot(t, key, size)->value : NULL;
}

int key_table_put(struct key_table *t, const void *key, size_t size, void *value)
{
	struct key_slot *slot = t->room ? find_slot(t, key, size) : NULL;
	if (!slot || !slot->key) {
		if (t->count * 2 >= t->room && grow(t) < 0)
			return -ENOMEM;
		slot = find_slot(t, key, size);
		t->count++;
	}
	*slot = (struct key_slot){key, size, value};
	return 0;
}
