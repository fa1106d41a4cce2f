/* SPDX-License-Identifier: MIT */
#include "queue/schedule/topology.h"

#include <stdbool.h>
#include <string.h>

static bool links_to(const struct gd_gpu *a, const struct gd_gpu *b)
{
	return a->known & GD_GPU_KNOWN_LINKS && b->vendor_index >= 0 && b->vendor_index < 64 &&
	       a->links >> b->vendor_index & 1;
}

unsigned topology_pair(const struct gd_gpu *a, const struct gd_gpu *b)
{
	unsigned score = 0;
	if (a->vendor == b->vendor && (links_to(a, b) || links_to(b, a)))
		score += TOPOLOGY_LINK;
	if (a->known & b->known & GD_GPU_KNOWN_NUMA_NODE && a->numa_node == b->numa_node)
		score += TOPOLOGY_NODE;
	return score;
}

unsigned topology_score(const struct gd_gpu *const *gpus, const int *set, size_t count)
{
	unsigned score = 0;
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < i; k++)
			score += topology_pair(gpus[set[i]], gpus[set[k]]);
	return score;
}

/* Candidates are numbered by their position in the list; a set is a sorted array of these numbers. */
struct choice {
	const struct gd_gpu *const *gpus;
	const int *candidates;
	size_t num_candidates, count;
	int *best; /* positions in `gpus`, for the caller */
	unsigned best_score;
	bool found;
};

static unsigned score_with(const struct choice *c, const int *set, size_t size, int candidate)
{
	unsigned score = 0;
	for (size_t i = 0; i < size; i++)
		score += topology_pair(c->gpus[set[i]], c->gpus[candidate]);
	return score;
}

/* Accepts only better sets: the first of equally good sets stays. */
static void offer(struct choice *c, const int *set, unsigned score)
{
	if (c->found && score <= c->best_score)
		return;
	c->found = true;
	c->best_score = score;
	memcpy(c->best, set, c->count * sizeof(*set));
}

/* All sets, in the order of their candidates. */
static void try_all(struct choice *c, size_t first, int *set, size_t size, unsigned score)
{
	if (size == c->count) {
		offer(c, set, score);
		return;
	}
	for (size_t i = first; i + (c->count - size) <= c->num_candidates; i++) {
		unsigned more = score_with(c, set, size, c->candidates[i]);
		set[size] = c->candidates[i];
		try_all(c, i + 1, set, size + 1, score + more);
	}
}

/* Starts with one candidate and repeatedly adds the one with the best score to the set. */
#define GREEDY_CANDIDATES 256
static void try_greedy(struct choice *c, size_t seed)
{
	bool taken[GREEDY_CANDIDATES] = {false};
	unsigned gain[GREEDY_CANDIDATES] = {0}, score = 0;
	int set[GREEDY_CANDIDATES];
	size_t next = seed;
	for (size_t size = 0; size < c->count; size++) {
		score += gain[next];
		taken[next] = true;
		const struct gd_gpu *added = c->gpus[c->candidates[next]];
		bool any = false;
		for (size_t i = 0; i < c->num_candidates; i++) {
			if (taken[i])
				continue;
			gain[i] += topology_pair(added, c->gpus[c->candidates[i]]);
			if (!any || gain[i] > gain[next])
				next = i;
			any = true;
		}
	}
	for (size_t i = 0, n = 0; i < c->num_candidates; i++)
		if (taken[i])
			set[n++] = c->candidates[i];
	offer(c, set, score);
}

/* Whether one set can be better than another. */
static bool matters(const struct choice *c)
{
	unsigned first = topology_pair(c->gpus[c->candidates[0]], c->gpus[c->candidates[1]]);
	for (size_t i = 0; i < c->num_candidates; i++)
		for (size_t k = 0; k < i; k++)
			if (topology_pair(c->gpus[c->candidates[i]], c->gpus[c->candidates[k]]) != first)
				return true;
	return false;
}

void topology_choose(
	const struct gd_gpu *const *gpus, const int *candidates, size_t num_candidates, size_t count, int *ret)
{
	struct choice c = {gpus, candidates, num_candidates, count, ret, 0, false};
	int set[TOPOLOGY_EXACT];
	memcpy(ret, candidates, count * sizeof(*ret));
	if (count < 2 || count >= num_candidates || count > GREEDY_CANDIDATES)
		return;
	if (c.num_candidates > GREEDY_CANDIDATES)
		c.num_candidates = GREEDY_CANDIDATES;
	if (!matters(&c))
		return;
	if (c.num_candidates <= TOPOLOGY_EXACT) {
		try_all(&c, 0, set, 0, 0);
		return;
	}
	for (size_t seed = 0; seed < c.num_candidates && seed < TOPOLOGY_SEEDS; seed++)
		try_greedy(&c, seed);
}
