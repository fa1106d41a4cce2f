/* SPDX-License-Identifier: MIT */
/* Finds, eight or sixteen bytes at a time, the bytes of a string that must be escaped in JSON. */
#ifndef BASE_JSON_PLAIN_H
#define BASE_JSON_PLAIN_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/*
 * Sets the top bit of each of the eight bytes that may have to be escaped: a quote, a backslash, a control character
 * (DEL only if `with_del`) or a byte that is not ASCII. Only the first such bit is reliable.
 */
static inline uint64_t json_special(uint64_t w, bool with_del)
{
	const uint64_t ones = UINT64_C(0x0101010101010101), high = UINT64_C(0x8080808080808080);
	uint64_t quote = w ^ (ones * '"');
	uint64_t slash = w ^ (ones * '\\');
	uint64_t del = with_del ? w + ones : 0;
	return ((quote - ones) | (slash - ones) | (w - ones * 0x20) | del | w) & high;
}

#if defined(__SSE2__)
/* Sets a bit for each of the sixteen bytes that may have to be escaped. Bytes that are not ASCII are negative. */
static inline unsigned json_special_16(const char *p, bool with_del)
{
	__m128i w = _mm_loadu_si128((const __m128i *)(const void *)p);
	__m128i found = _mm_cmplt_epi8(w, _mm_set1_epi8(0x20));
	found = _mm_or_si128(found, _mm_cmpeq_epi8(w, _mm_set1_epi8('"')));
	found = _mm_or_si128(found, _mm_cmpeq_epi8(w, _mm_set1_epi8('\\')));
	if (with_del)
		found = _mm_or_si128(found, _mm_cmpeq_epi8(w, _mm_set1_epi8(0x7f)));
	return (unsigned)_mm_movemask_epi8(found);
}
#endif

/* Returns the next byte that may have to be escaped, or one of the last seven. */
static inline const char *json_skip_plain(const char *p, const char *end, bool with_del)
{
	uint64_t w, found;
#if defined(__SSE2__)
	for (; end - p >= 16; p += 16) {
		unsigned special = json_special_16(p, with_del);
		if (special)
			return p + __builtin_ctz(special);
	}
#endif
	for (; end - p >= 8; p += 8) {
		memcpy(&w, p, 8);
		found = json_special(le64toh(w), with_del);
		if (found)
			return p + (__builtin_ctzll(found) >> 3);
	}
	return p;
}

#endif
