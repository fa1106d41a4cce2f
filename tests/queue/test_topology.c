/* SPDX-License-Identifier: MIT */
/* Choice of GPUs for a job that needs several, if links and NUMA nodes are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdlib.h>

#include "queue/schedule/topology.h"
#include "support/gpu_pointers.h"

#define MOST 64

struct box {
	struct gd_gpu gpus[MOST];
	size_t count;
};

/* Node -1: unknown. */
static struct box *box_of(size_t count, const int *nodes)
{
	static struct box b;
	b = (struct box){.count = count};
	for (size_t i = 0; i < count; i++) {
		b.gpus[i] = (struct gd_gpu){.size = sizeof(b.gpus[i]),
			.vendor = GD_VENDOR_NVIDIA,
			.index = (int)i,
			.vendor_index = (int)i,
			.mig_index = -1};
		if (nodes && nodes[i] >= 0) {
			b.gpus[i].numa_node = nodes[i];
			b.gpus[i].known |= GD_GPU_KNOWN_NUMA_NODE;
		}
	}
	return &b;
}

static void link_gpus(struct box *b, size_t i, size_t k)
{
	b->gpus[i].known |= GD_GPU_KNOWN_LINKS;
	b->gpus[k].known |= GD_GPU_KNOWN_LINKS;
	b->gpus[i].links |= UINT64_C(1) << k;
	b->gpus[k].links |= UINT64_C(1) << i;
}

static void choose(struct box *b, size_t num_candidates, const int *candidates, size_t count, const int *expected)
{
	int all[MOST], chosen[MOST];
	for (size_t i = 0; i < MOST; i++)
		all[i] = (int)i;
	topology_choose(gpu_pointers(b->gpus, b->count), candidates ? candidates : all, num_candidates, count, chosen);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(chosen[i], expected[i]);
}

static void test_without_topology_the_first_candidates_are_taken(void **state)
{
	(void)state;
	struct box *b = box_of(6, NULL);
	choose(b, 5, (const int[]){5, 0, 2, 3, 1}, 2, (const int[]){5, 0});
	choose(b, 6, NULL, 1, (const int[]){0});
	choose(b, 6, NULL, 6, (const int[]){0, 1, 2, 3, 4, 5});
}

static void test_gpus_of_one_numa_node_are_preferred(void **state)
{
	(void)state;
	struct box *b = box_of(8, (const int[]){0, 1, 0, 1, 0, 1, 0, 1});
	choose(b, 8, NULL, 2, (const int[]){0, 2});
	choose(b, 8, NULL, 4, (const int[]){0, 2, 4, 6});
	choose(b, 4, (const int[]){1, 2, 3, 5}, 3, (const int[]){1, 3, 5});
	/* One is unknown: it is not grouped with others. */
	b = box_of(3, (const int[]){-1, 1, 1});
	choose(b, 3, NULL, 2, (const int[]){1, 2});
}

static void test_links_count_more_than_numa_nodes(void **state)
{
	(void)state;
	struct box *b = box_of(4, (const int[]){0, 0, 1, 1});
	link_gpus(b, 1, 2);
	choose(b, 4, NULL, 2, (const int[]){1, 2});
	/* A link that only one of the two reports. */
	b->gpus[2].known &= ~(unsigned)GD_GPU_KNOWN_LINKS;
	choose(b, 4, NULL, 2, (const int[]){1, 2});
	b->gpus[2].vendor = GD_VENDOR_AMD;
	choose(b, 4, NULL, 2, (const int[]){0, 1});
}

static void test_four_of_eight_with_links_in_two_rings(void **state)
{
	(void)state;
	/* {0,3,4,7} and {1,2,5,6}, all linked among themselves. */
	struct box *b = box_of(8, (const int[]){0, 0, 0, 0, 1, 1, 1, 1});
	const size_t rings[2][4] = {{0, 3, 4, 7}, {1, 2, 5, 6}};
	for (size_t r = 0; r < 2; r++)
		for (size_t i = 0; i < 4; i++)
			for (size_t k = 0; k < i; k++)
				link_gpus(b, rings[r][i], rings[r][k]);
	choose(b, 8, NULL, 4, (const int[]){0, 3, 4, 7});
	choose(b, 7, (const int[]){1, 2, 3, 4, 5, 6, 7}, 4, (const int[]){1, 2, 5, 6});
	assert_int_equal(topology_score(gpu_pointers(b->gpus, 8), (const int[]){0, 3, 4, 7}, 4), 6 * TOPOLOGY_LINK + 2);
}

static void test_many_candidates_are_chosen_greedily(void **state)
{
	(void)state;
	int nodes[MOST];
	for (size_t i = 0; i < MOST; i++)
		nodes[i] = (int)(i % 8);
	struct box *b = box_of(MOST, nodes);
	choose(b, MOST, NULL, 4, (const int[]){0, 8, 16, 24});
	link_gpus(b, 60, 61);
	choose(b, MOST, NULL, 2, (const int[]){60, 61});
}

static bool is_better(struct box *b, size_t count, const int *chosen)
{
	unsigned best = topology_score(gpu_pointers(b->gpus, b->count), chosen, count);
	for (unsigned bits = 0; bits < 1u << b->count; bits++) {
		int set[MOST];
		size_t n = 0;
		for (size_t i = 0; i < b->count; i++)
			if (bits >> i & 1)
				set[n++] = (int)i;
		if (n == count && topology_score(gpu_pointers(b->gpus, b->count), set, n) > best)
			return true;
	}
	return false;
}

static void test_on_a_small_machine_the_best_set_is_found(void **state)
{
	(void)state;
	srand(3);
	for (int round = 0; round < 200; round++) {
		int nodes[9], chosen[9], all[9];
		for (int i = 0; i < 9; i++) {
			nodes[i] = rand() % 3 - 1;
			all[i] = i;
		}
		struct box *b = box_of(9, nodes);
		for (int i = 0; i < rand() % 12; i++) {
			size_t x = (size_t)rand() % 9, y = (size_t)rand() % 9;
			if (x != y)
				link_gpus(b, x, y);
		}
		size_t count = 2 + (size_t)rand() % 7;
		topology_choose(gpu_pointers(b->gpus, 9), all, 9, count, chosen);
		for (size_t i = 1; i < count; i++)
			assert_true(chosen[i - 1] < chosen[i]);
		assert_false(is_better(b, count, chosen));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_topology_the_first_candidates_are_taken),
		cmocka_unit_test(test_gpus_of_one_numa_node_are_preferred),
		cmocka_unit_test(test_links_count_more_than_numa_nodes),
		cmocka_unit_test(test_four_of_eight_with_links_in_two_rings),
		cmocka_unit_test(test_many_candidates_are_chosen_greedily),
		cmocka_unit_test(test_on_a_small_machine_the_best_set_is_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
