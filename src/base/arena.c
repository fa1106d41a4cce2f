/* SPDX-License-Identifier: MIT */
#include "base/arena.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/hash.h"

#define BLOCK_BYTES ((size_t)64 * 1024)
/* An arena of this size allocates large blocks, in huge pages if the kernel has them. */
#define MANY_BYTES        ((size_t)1 << 20)
#define HUGE_PAGE_BYTES   ((size_t)2 << 20)
#define LARGE_BLOCK_BYTES (2 * HUGE_PAGE_BYTES)

struct arena_block {
	struct arena_block *next;
	size_t size;
};

void arena_finish(struct arena *a)
{
	while (a->blocks) {
		struct arena_block *b = a->blocks;
		a->blocks = b->next;
		free(b);
	}
	*a = (struct arena){0};
}

static struct arena_block *allocate_large(void)
{
	struct arena_block *b = aligned_alloc(HUGE_PAGE_BYTES, LARGE_BLOCK_BYTES);
	if (b)
		(void)madvise(b, LARGE_BLOCK_BYTES, MADV_HUGEPAGE); /* only speed depends on it */
	return b;
}

static char *arena_grow(struct arena *a, size_t size)
{
	bool large = a->total >= MANY_BYTES && size <= LARGE_BLOCK_BYTES - sizeof(struct arena_block);
	size_t room = large ? LARGE_BLOCK_BYTES - sizeof(struct arena_block) : size > BLOCK_BYTES ? size : BLOCK_BYTES;
	struct arena_block *b = large ? allocate_large() : malloc(sizeof(*b) + room);
	if (!b)
		return NULL;
	a->total += room;
	*b = (struct arena_block){a->blocks, room};
	a->blocks = b;
	a->next = (char *)(b + 1);
	a->left = room;
	return a->next;
}

char *arena_room(struct arena *a, size_t size)
{
	if (size >= SIZE_MAX / 2)
		return NULL;
	if (a->left < size + 1)
		return arena_grow(a, size + 1);
	return a->next;
}

void arena_keep(struct arena *a, size_t used)
{
	a->next[used] = '\0';
	a->next += used + 1;
	a->left -= used + 1;
}

void *arena_alloc(struct arena *a, size_t size)
{
	size_t skew = (size_t)(-(uintptr_t)a->next & 7);
	if (a->left < size + skew) {
		if (!arena_grow(a, size))
			return NULL;
		skew = 0;
	}
	char *p = a->next + skew;
	a->next += size + skew;
	a->left -= size + skew;
	memset(p, 0, size);
	return p;
}

char *arena_copy(struct arena *a, const void *data, size_t size)
{
	char *p = arena_room(a, size);
	if (!p)
		return NULL;
	memcpy(p, data, size);
	arena_keep(a, size);
	return p;
}

void intern_finish(struct intern *in)
{
	arena_finish(&in->arena);
	free(in->table);
	*in = (struct intern){0};
}

static const char **intern_slot(const struct intern *in, const char *data, size_t size)
{
	size_t i = hash_seeded(data, size, in->seed) & (in->room - 1);
	while (in->table[i] && !(strncmp(in->table[i], data, size) == 0 && in->table[i][size] == '\0'))
		i = (i + 1) & (in->room - 1);
	return &in->table[i];
}

static int intern_grow(struct intern *in)
{
	struct intern larger = {.room = in->room ? in->room * 2 : 64, .seed = in->seed ? in->seed : hash_seed()};
	larger.table = calloc(larger.room, sizeof(*larger.table));
	if (!larger.table)
		return -1;
	for (size_t i = 0; i < in->room; i++)
		if (in->table[i])
			*intern_slot(&larger, in->table[i], strlen(in->table[i])) = in->table[i];
	free(in->table);
	in->table = larger.table;
	in->room = larger.room;
	in->seed = larger.seed;
	return 0;
}

const char *intern(struct intern *in, const void *data, size_t size)
{
	if (in->last && size == in->last_size && memcmp(in->last, data, size) == 0)
		return in->last;
	/* Up to the first NUL: these are names and paths. */
	size = strnlen(data, size);
	if (in->count * 2 >= in->room && intern_grow(in) < 0)
		return NULL;
	const char **slot = intern_slot(in, data, size);
	if (!*slot) {
		*slot = arena_copy(&in->arena, data, size);
		if (!*slot)
			return NULL;
		in->count++;
	}
	in->last = *slot;
	in->last_size = size;
	return *slot;
}
