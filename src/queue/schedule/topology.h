/* SPDX-License-Identifier: MIT */
/*
 * Which GPUs work well together: direct links (NVLink, xGMI) first, then the same NUMA node.
 *
 * Each pair of a set scores TOPOLOGY_LINK for a link and TOPOLOGY_NODE for a common NUMA node; unknown
 * properties score nothing. Pure.
 */
#ifndef QUEUE_SCHEDULE_TOPOLOGY_H
#define QUEUE_SCHEDULE_TOPOLOGY_H

#include <stddef.h>

#include "gpu_dispatch.h"

#define TOPOLOGY_LINK 4
#define TOPOLOGY_NODE 1

unsigned topology_pair(const struct gd_gpu *a, const struct gd_gpu *b);

/* The sum over all pairs. `set` contains positions in `gpus`. */
unsigned topology_score(const struct gd_gpu *const *gpus, const int *set, size_t count);

/*
 * Writes into ret the `count` candidates (positions in `gpus`) whose score is highest, in the order of
 * the candidates. Of equally good sets, the one with earlier candidates wins: put preferred candidates
 * first. Exact for up to TOPOLOGY_EXACT candidates; beyond that, sets are grown greedily from each of
 * the first TOPOLOGY_SEEDS, which may miss the best set. count <= num_candidates.
 */
#define TOPOLOGY_EXACT 12
#define TOPOLOGY_SEEDS 64
void topology_choose(
	const struct gd_gpu *const *gpus, const int *candidates, size_t num_candidates, size_t count, int *ret);

#endif
