/* SPDX-License-Identifier: MIT */
/*
 * A hash table from keys to pointers. The hashes have a random seed: another user may have written the journal that the
 * keys come from, and must not be able to choose keys that collide.
 */
#ifndef QUEUE_JOURNAL_KEY_TABLE_H
#define QUEUE_JOURNAL_KEY_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct key_slot;

/* Start from {0}. */
struct key_table {
	struct key_slot *slots;
	size_t room; /* a power of two */
	size_t count;
	uint64_t seed;
};

void key_table_finish(struct key_table *t);
/* NULL if there is no such key. */
void *key_table_get(const struct key_table *t, const void *key, size_t size);
/* Adds the key, or replaces its value. The key is not copied: it must stay valid. -ENOMEM only for a new key. */
int key_table_put(struct key_table *t, const void *key, size_t size, void *value);

#endif
