/* SPDX-License-Identifier: MIT */
/* A histogram of durations, in buckets whose width is at most a sixteenth of the value. */
#ifndef POOL_HISTOGRAM_H
#define POOL_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BUCKETS 976

struct histogram {
	uint64_t counts[HISTOGRAM_BUCKETS];
	uint64_t total;
	uint64_t max;
};

/* 0…15 have a bucket each; then sixteen per power of two. */
static inline unsigned histogram_bucket(uint64_t value)
{
	if (value < 16)
		return (unsigned)value;
	unsigned power = 63u - (unsigned)__builtin_clzll(value); /* 4…63 */
	return (power - 3) * 16 + (unsigned)((value >> (power - 4)) & 15);
}

static inline void histogram_add(struct histogram *h, uint64_t value)
{
	unsigned bucket = histogram_bucket(value);
	h->counts[bucket]++;
	h->total++;
	if (value > h->max)
		h->max = value;
}

/* The value that `fraction` of the samples do not exceed, as the upper bound of its bucket; 0 without samples. */
uint64_t histogram_quantile(const struct histogram *h, double fraction);

#endif
