/* SPDX-License-Identifier: MIT */
#include "pool/histogram.h"

#include <assert.h>

/* 0…15 have a bucket each; then sixteen per power of two. */
static unsigned bucket_of(uint64_t value)
{
	if (value < 16)
		return (unsigned)value;
	unsigned power = 63u - (unsigned)__builtin_clzll(value); /* 4…63 */
	return (power - 3) * 16 + (unsigned)((value >> (power - 4)) & 15);
}

static uint64_t upper_bound(unsigned bucket)
{
	if (bucket < 16)
		return bucket;
	unsigned power = bucket / 16 + 3;
	uint64_t low = (UINT64_C(16) + bucket % 16) << (power - 4);
	return low + ((UINT64_C(1) << (power - 4)) - 1);
}

void histogram_add(struct histogram *h, uint64_t value)
{
	unsigned bucket = bucket_of(value);
	assert(bucket < HISTOGRAM_BUCKETS);
	h->counts[bucket]++;
	h->total++;
	if (value > h->max)
		h->max = value;
}

uint64_t histogram_quantile(const struct histogram *h, double fraction)
{
	if (h->total == 0)
		return 0;
	uint64_t rank = (uint64_t)(fraction * (double)h->total);
	if (rank >= h->total)
		rank = h->total - 1;
	uint64_t seen = 0;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += h->counts[i];
		if (seen > rank) {
			uint64_t bound = upper_bound(i);
			return bound < h->max ? bound : h->max;
		}
	}
	return h->max;
}
