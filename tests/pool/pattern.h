/* SPDX-License-Identifier: MIT */
/* Bytes that differ from number to number and from page to page, and are known again. */
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

/* Looks at the ends and the middle of each page. */
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
