/* SPDX-License-Identifier: MIT */
/* Finds, eight bytes at a time, the bytes of a string that must be escaped in JSON. */
#ifndef BASE_JSON_PLAIN_H
#define BASE_JSON_PLAIN_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/*
 * The top bit of each of the eight bytes that needs a look: a quote, a backslash, a control character (DEL only if
 * `with_del`) or not ASCII. The first one is right, those after it need not be.
 */
static inline uint64_t json_special(uint64_t w, bool with_del)
{
	const uint64_t ones = UINT64_C(0x0101010101010101), high = UINT64_C(0x8080808080808080);
	uint64_t quote = w ^ (ones * '"');
	uint64_t slash = w ^ (ones * '\\');
	uint64_t del = with_del ? w + ones : 0;
	return ((quote - ones) | (slash - ones) | (w - ones * 0x20) | del | w) & high;
}

/* The next byte that needs a look, or one of the last seven. */
static inline const char *json_skip_plain(const char *p, const char *end, bool with_del)
{
	uint64_t w, found;
	for (; end - p >= 8; p += 8) {
		memcpy(&w, p, 8);
		found = json_special(le64toh(w), with_del);
		if (found)
			return p + (__builtin_ctzll(found) >> 3);
	}
	return p;
}

#endif
