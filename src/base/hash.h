/* SPDX-License-Identifier: MIT */
/* A 128-bit hash that identifies contents, written into files. Must not be used for contents chosen by an attacker; see
 * hash_seeded(). */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash {
	uint64_t a, b;
};

struct hash hash_bytes(const void *data, size_t size);

/*
 * For tables whose keys other users may have chosen, such as file names. Users who do not know the seed cannot choose
 * keys that collide, each of which would be compared with all others.
 */
uint64_t hash_seeded(const void *data, size_t size, uint64_t seed);
/* A random seed, not 0. One for each table. */
uint64_t hash_seed(void);

#define HASH_TEXT 33 /* 32 hexadecimal digits and a NUL */
void hash_format(struct hash h, char out[HASH_TEXT]);
/* From 32 digits that hash_format() wrote; no NUL is needed. Does not check them. */
struct hash hash_parse(const char *hex);

#endif
