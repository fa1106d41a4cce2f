/* SPDX-License-Identifier: MIT */
/* Memory that is freed all at once, and interned strings. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct arena_block;

/* Start from {0}. */
struct arena {
	struct arena_block *blocks;
	char *next;
	size_t left;
	size_t total; /* total of all blocks */
};

void arena_finish(struct arena *a);
/* Zeroed, aligned to 8 bytes; NULL if out of memory. */
void *arena_alloc(struct arena *a, size_t size);
/* A copy, followed by a NUL. */
char *arena_copy(struct arena *a, const void *data, size_t size);
/* Space for up to `size` bytes and a NUL, not aligned. Call arena_keep() with the number of bytes used. */
char *arena_room(struct arena *a, size_t size);
void arena_keep(struct arena *a, size_t used);

/* Interned strings: equal strings share one copy and can be compared by address. Start from {0}. */
struct intern {
	struct arena arena;
	const char **table;
	size_t room; /* a power of two */
	size_t count;
	uint64_t seed;    /* for the hashes, because the strings may come from other users */
	const char *last; /* the last string returned: runs of equal strings are common */
	size_t last_size;
};

void intern_finish(struct intern *in);
/* The shared copy, NUL-terminated; NULL if out of memory. */
const char *intern(struct intern *in, const void *data, size_t size);

#endif
