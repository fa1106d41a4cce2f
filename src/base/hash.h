/* SPDX-License-Identifier: MIT */
/* 128 bits that tell contents apart. Not for contents that an enemy chose. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash {
	uint64_t a, b;
};

struct hash hash_bytes(const void *data, size_t size);

#define HASH_TEXT 33 /* 32 hexadecimal digits and a NUL */
void hash_format(struct hash h, char out[HASH_TEXT]);
/* From 32 digits that hash_format() wrote; no NUL is needed. Does not check them. */
struct hash hash_parse(const char *hex);

#endif
