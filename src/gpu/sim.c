/* SPDX-License-Identifier: MIT */
/*
 * Simulated GPUs, for machines without one: all idle, all memory free.
 *
 * Tests give them a topology: GPUQ_SIM_NODES=2 spreads them evenly over two NUMA nodes, GPUQ_SIM_LINKS="0-1,2-3" links
 * pairs of them.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"

struct sim {
	uint64_t memory_bytes;
	unsigned count;
};

static int sim_open(const struct gpu_spec *spec, struct gpu_set *warnings, void **ret_state, unsigned *ret_cards)
{
	(void)warnings;
	struct sim *sim = malloc(sizeof(*sim));
	if (!sim)
		return -ENOMEM;
	sim->memory_bytes = spec->sim_memory_bytes;
	sim->count = (unsigned)spec->sim_count;
	*ret_state = sim;
	*ret_cards = (unsigned)spec->sim_count;
	return 0;
}

static void read_topology(const struct sim *sim, unsigned card, struct gd_gpu *gpu)
{
	const char *nodes = getenv("GPUQ_SIM_NODES"), *links = getenv("GPUQ_SIM_LINKS");
	int count = nodes ? atoi(nodes) : 0;
	if (count > 0) {
		gpu->numa_node = (int)((uint64_t)card * (unsigned)count / sim->count);
		gpu->known |= GD_GPU_KNOWN_NUMA_NODE;
	}
	unsigned a, b;
	for (const char *p = links; p; p = strchr(p, ',')) {
		p += *p == ',';
		if (sscanf(p, "%u-%u", &a, &b) != 2 || a >= 64 || b >= 64)
			continue;
		if (a == card || b == card)
			gpu->links |= UINT64_C(1) << (a == card ? b : a);
		gpu->known |= GD_GPU_KNOWN_LINKS;
	}
}

static int sim_sample(void *state, unsigned card, struct gpu_set *ret)
{
	const struct sim *sim = state;
	struct gd_gpu gpu = {
		.known = GD_GPU_KNOWN_UUID | GD_GPU_KNOWN_NAME | GD_GPU_KNOWN_MEMORY_TOTAL | GD_GPU_KNOWN_MEMORY_FREE |
			 GD_GPU_KNOWN_MEMORY_USED | GD_GPU_KNOWN_UTILIZATION | GD_GPU_KNOWN_PROCESSES |
			 GD_GPU_KNOWN_MIG | GD_GPU_KNOWN_COMPUTE_MODE,
		.vendor = GD_VENDOR_SIMULATED,
		.vendor_index = (int)card,
		.mig_index = -1,
		.name = "Simulated GPU",
		.memory_total_bytes = sim->memory_bytes,
		.memory_free_bytes = sim->memory_bytes,
	};
	snprintf(gpu.uuid, sizeof(gpu.uuid), "GPU-51310000-0000-4000-8000-%012x", card);
	read_topology(sim, card, &gpu);
	return gpu_set_add(ret, &gpu);
}

const struct gpu_backend gpu_sim = {
	.vendor = GD_VENDOR_SIMULATED,
	.driver = "the simulation",
	.open = sim_open,
	.sample = sim_sample,
	.close = free,
};
