/* SPDX-License-Identifier: MIT */
#include "base/crc32c.h"

#include <endian.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#define POLYNOMIAL UINT32_C(0x82f63b78) /* reflected */

/* tables[k][b]: the CRC of byte b followed by k zero bytes. Eight bytes take eight independent lookups. */
static uint32_t tables[8][256];

static void fill_tables(void)
{
	for (uint32_t b = 0; b < 256; b++) {
		uint32_t crc = b;
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ POLYNOMIAL : crc >> 1;
		tables[0][b] = crc;
	}
	for (int k = 1; k < 8; k++)
		for (int b = 0; b < 256; b++)
			tables[k][b] = tables[k - 1][b] >> 8 ^ tables[0][tables[k - 1][b] & 0xff];
}

static uint64_t load_u64(const unsigned char *p)
{
	uint64_t word;
	memcpy(&word, p, sizeof(word));
	return le64toh(word);
}

uint32_t crc32c_portable(uint32_t crc, const void *data, size_t size)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, fill_tables);
	const unsigned char *p = data;
	crc = ~crc;
	for (; size >= 8; size -= 8, p += 8) {
		uint64_t word = load_u64(p) ^ crc;
		crc = 0;
		for (int k = 0; k < 8; k++)
			crc ^= tables[7 - k][word >> 8 * k & 0xff];
	}
	for (; size > 0; size--, p++)
		crc = crc >> 8 ^ tables[0][(crc ^ *p) & 0xff];
	return ~crc;
}

#if defined(__x86_64__)

__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const void *data, size_t size)
{
	const unsigned char *p = data;
	uint64_t state = ~crc;
	for (; size >= 8; size -= 8, p += 8)
		state = __builtin_ia32_crc32di(state, load_u64(p));
	uint32_t rest = (uint32_t)state, four;
	uint16_t two;
	if (size & 4) {
		memcpy(&four, p, 4);
		rest = __builtin_ia32_crc32si(rest, four);
		p += 4;
	}
	if (size & 2) {
		memcpy(&two, p, 2);
		rest = __builtin_ia32_crc32hi(rest, two);
		p += 2;
	}
	return ~(size & 1 ? __builtin_ia32_crc32qi(rest, *p) : rest);
}

static bool has_instruction(void)
{
	return __builtin_cpu_supports("sse4.2");
}

#else

static uint32_t by_instruction(uint32_t crc, const void *data, size_t size)
{
	return crc32c_portable(crc, data, size);
}

static bool has_instruction(void)
{
	return false;
}

#endif

uint32_t crc32c(uint32_t crc, const void *data, size_t size)
{
	return has_instruction() ? by_instruction(crc, data, size) : crc32c_portable(crc, data, size);
}
