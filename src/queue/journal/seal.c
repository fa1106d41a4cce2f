/* SPDX-License-Identifier: MIT */
#include "queue/journal/seal.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/crc32c.h"

#define CHECK_BEGIN ",\"c\":\""
#define CHECK_SIZE  (sizeof(CHECK_BEGIN) - 1 + 8 + 2) /* with eight digits and "} */
#define NUMBER_KEY  ",\"n\":"
#define MOST_DIGITS 19

/* The checksum as eight hexadecimal digits in memory order, computed all at once. */
static uint64_t check_digits(uint32_t crc)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t x = crc;
	x = (x << 16 | x) & UINT64_C(0x0000ffff0000ffff);
	x = (x << 8 | x) & UINT64_C(0x00ff00ff00ff00ff);
	x = (x << 4 | x) & UINT64_C(0x0f0f0f0f0f0f0f0f);
	uint64_t letters = (x + 6 * ones) >> 4 & ones;
	return htobe64(x + '0' * ones + ('a' - 10 - '0') * letters);
}

void seal_append(struct text *t, const char *line, size_t size, uint64_t n)
{
	size -= size > 0 && line[size - 1] == '\n';
	size_t start = t->length;
	text_append(t, line, size - 1); /* without the brace */
	text_append(t, NUMBER_KEY, sizeof(NUMBER_KEY) - 1);
	text_append_number(t, n);
	if (text_error(t))
		return;
	char check[] = CHECK_BEGIN "00000000\"}\n";
	uint64_t digits = check_digits(crc32c(0, t->data + start, t->length - start));
	memcpy(check + sizeof(CHECK_BEGIN) - 1, &digits, sizeof(digits));
	text_append(t, check, sizeof(check) - 1);
}

/*
 * Reads the number that ends before `end`, and returns how many digits it has. Up to seven digits are read at once,
 * from the eight bytes before `end`; 0 if there are none or more.
 */
static size_t last_number(const char *end, uint64_t *ret)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t w;
	memcpy(&w, end - sizeof(w), sizeof(w));
	w = le64toh(w) ^ '0' * ones; /* the last digit in the highest byte */
	uint64_t others = (((w & 0x7f * ones) + 0x76 * ones) | w) & 0x80 * ones;
	if (!others || others >> 63)
		return 0;
	size_t digits = (size_t)__builtin_clzll(others) / 8;
	w &= ~UINT64_C(0) << 8 * (sizeof(w) - digits);
	w = w * 10 + (w >> 8); /* each pair of digits, in every other byte */
	*ret = ((w & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x000f424000000064) +
		       (w >> 16 & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x0000271000000001)) >>
	       32;
	return digits;
}

bool seal_is_there(const char *line, size_t size)
{
	return size > CHECK_SIZE && memcmp(line + size - CHECK_SIZE, CHECK_BEGIN, sizeof(CHECK_BEGIN) - 1) == 0 &&
	       line[size - 2] == '"' && line[size - 1] == '}';
}

int seal_check(const char *line, size_t size, uint64_t *ret_n, size_t *ret_body)
{
	if (!seal_is_there(line, size))
		return -EBADMSG;
	size_t end = size - CHECK_SIZE, at = end, least = end > MOST_DIGITS ? end - MOST_DIGITS : 0;
	uint64_t n = 0, unit = 1, digit;
	size_t digits = end < sizeof(uint64_t) ? 0 : last_number(line + end, &n);
	at -= digits;
	for (; !digits && at > least && (digit = (uint64_t)(line[at - 1] - '0')) < 10; at--, unit *= 10)
		n += digit * unit;
	const size_t key = sizeof(NUMBER_KEY) - 1;
	if (at == end || at < key + 1 || n == 0 || memcmp(line + at - key, NUMBER_KEY, key) != 0)
		return -EBADMSG;
	uint64_t check = check_digits(crc32c(0, line, end));
	if (memcmp(&check, line + size - 10, sizeof(check)) != 0)
		return -EBADMSG;
	*ret_n = n;
	*ret_body = at - key;
	return 0;
}
