/* SPDX-License-Identifier: MIT */
#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"

/* Multiplies to 128 bits and folds: each bit of either side reaches every bit of the result. */
static inline uint64_t mix(uint64_t x, uint64_t y)
{
	__extension__ typedef unsigned __int128 wide;
	wide w = (wide)x * y;
	return (uint64_t)w ^ (uint64_t)(w >> 64);
}

static inline struct hash hash_from(const void *data, size_t size, uint64_t seed)
{
	/* Odd constants with their bits well spread: the fractions of the square roots of 2, 3, 5 and 7. */
	const uint64_t k1 = UINT64_C(0x6A09E667F3BCC909), k2 = UINT64_C(0xBB67AE8584CAA73B);
	const uint64_t k3 = UINT64_C(0x3C6EF372FE94F82B), k4 = UINT64_C(0xA54FF53A5F1D36F1);
	const unsigned char *p = data;
	uint64_t a = k1 ^ size ^ seed, b = k2 + size + (seed << 32 | seed >> 32);
	size_t left = size;
	while (left > 0) {
		uint64_t w[2] = {0, 0};
		size_t n = left < sizeof(w) ? left : sizeof(w);
		memcpy(w, p, n);
		a = mix(a ^ w[0] ^ k3, b ^ w[1] ^ k4) + w[1];
		b = mix(b ^ w[0] ^ k1, w[1] ^ k2 ^ (a << 1 | a >> 63)) + w[0];
		p += n;
		left -= n;
	}
	return (struct hash){mix(a ^ k2, b ^ k3), mix(b ^ k4, a ^ k1)};
}

struct hash hash_bytes(const void *data, size_t size)
{
	return hash_from(data, size, 0);
}

uint64_t hash_seeded(const void *data, size_t size, uint64_t seed)
{
	return hash_from(data, size, seed).a;
}

uint64_t hash_seed(void)
{
	uint64_t seed = 0;
	/* getrandom() may fail early in the boot or in a sandbox; the table works without it. */
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = clock_now_ns();
	return seed | 1;
}

void hash_format(struct hash h, char out[HASH_TEXT])
{
	snprintf(out, HASH_TEXT, "%016llx%016llx", (unsigned long long)h.a, (unsigned long long)h.b);
}

static uint64_t parse_half(const char *hex)
{
	char half[17] = {0};
	memcpy(half, hex, 16);
	return strtoull(half, NULL, 16);
}

struct hash hash_parse(const char *hex)
{
	return (struct hash){parse_half(hex), parse_half(hex + 16)};
}
