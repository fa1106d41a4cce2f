/* SPDX-License-Identifier: MIT */
/* Memory that is given back all at once, and strings kept once each. */
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
	size_t total; /* of all blocks */
};

void arena_finish(struct arena *a);
/* Zeroed, aligned to 8 bytes; NULL when memory ran out. */
void *arena_alloc(struct arena *a, size_t size);
/* A copy with a NUL after it. */
char *arena_copy(struct arena *a, const void *data, size_t size);
/* Room for up to `size` bytes and a NUL, not aligned; arena_keep() says how many were used. */
char *arena_room(struct arena *a, size_t size);
void arena_keep(struct arena *a, size_t used);

/* Equal strings, one copy: to be compared by their address. Start from {0}. */
struct intern {
	struct arena arena;
	const char **table;
	size_t room; /* a power of two */
	size_t count;
	uint64_t seed;    /* of its hashes: others may have chosen the strings */
	const char *last; /* the one asked for last: runs of equal strings are the rule */
	size_t last_size;
};

void intern_finish(struct intern *in);
/* The one copy, NUL-terminated; NULL when memory ran out. */
const char *intern(struct intern *in, const void *data, size_t size);

#endif
