/* SPDX-License-Identifier: MIT */
/* Byte patterns that differ between numbers and between pages, and can be checked. */
#ifndef TESTS_POOL_PATTERN_H
#define TESTS_POOL_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void pattern_fill(void *to, size_t size, uint64_t number)
{
	unsigned char *data = to;
	for (size_t i = 0; i < size; i += 4096)
		memset(data + i, (int)(number * 31 + i / 4096 + 1), size - i < 4096 ? size - i : 4096);
}

/* Checks the ends and the middle of each page. */
static inline bool pattern_is_filled(const void *from, size_t size, uint64_t number)
{
	const unsigned char *data = from;
	for (size_t i = 0; i < size; i += 4096) {
		unsigned char expected = (unsigned char)(number * 31 + i / 4096 + 1);
		size_t n = size - i < 4096 ? size - i : 4096;
		if (data[i] != expected || data[i + n / 2] != expected || data[i + n - 1] != expected)
			return false;
	}
	return true;
}

#endif
