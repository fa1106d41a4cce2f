/* SPDX-License-Identifier: MIT */
#include "pool/histogram.h"

static uint64_t upper_bound(unsigned bucket)
{
	if (bucket < 16)
		return bucket;
	unsigned power = bucket / 16 + 3;
	uint64_t low = (UINT64_C(16) + bucket % 16) << (power - 4);
	return low + ((UINT64_C(1) << (power - 4)) - 1);
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
