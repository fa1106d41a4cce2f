/* SPDX-License-Identifier: MIT */
/* How long things took: counts in buckets that are at most a sixteenth wide. */
#ifndef POOL_HISTOGRAM_H
#define POOL_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BUCKETS 976

struct histogram {
	uint64_t counts[HISTOGRAM_BUCKETS];
	uint64_t total;
	uint64_t max;
};

void histogram_add(struct histogram *h, uint64_t value);

/* The value that `fraction` of all do not exceed, as the upper bound of its bucket; 0 while there are none. */
uint64_t histogram_quantile(const struct histogram *h, double fraction);

#endif
