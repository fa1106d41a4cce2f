/* SPDX-License-Identifier: MIT */
#include "slurm/cluster_nodes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

void cluster_nodes_finish(struct cluster_nodes *n)
{
	free(n->nodes);
	free(n->ledger);
	free(n->gpus);
	free(n->gpu_nodes);
	free(n->gpu_list);
	*n = (struct cluster_nodes){0};
}

int cluster_nodes_find(const struct cluster_nodes *n, const char *pilot)
{
	for (size_t i = 0; i < n->count; i++)
		if (!n->nodes[i].gone && strcmp(n->nodes[i].pilot, pilot) == 0)
			return (int)i;
	return -1;
}

static int add_node(struct cluster_nodes *n, size_t num_gpus)
{
	if (array_reserve(n->nodes, &n->capacity, n->count + 1) < 0 ||
		array_reserve(n->ledger, &n->ledger_capacity, n->count + 1) < 0 ||
		array_reserve(n->gpus, &n->gpus_capacity, n->num_gpus + num_gpus + 1) < 0 ||
		array_reserve(n->gpu_nodes, &n->gpu_nodes_capacity, n->num_gpus + num_gpus + 1) < 0 ||
		array_reserve(n->gpu_list, &n->gpu_list_capacity, n->num_gpus + num_gpus + 1) < 0)
		return -ENOMEM;
	n->nodes[n->count] = (struct cluster_node){.first_gpu = n->num_gpus, .num_gpus = num_gpus};
	n->ledger[n->count] = (struct ledger_node){0};
	for (size_t i = 0; i < num_gpus; i++)
		n->gpu_nodes[n->num_gpus++] = (int)n->count;
	/* The array may have moved. */
	for (size_t i = 0; i < n->num_gpus; i++)
		n->gpu_list[i] = &n->gpus[i];
	return (int)n->count++;
}

static int free_node(const struct cluster_nodes *n, size_t num_gpus)
{
	for (size_t i = 0; i < n->count; i++)
		if (n->nodes[i].gone && n->nodes[i].num_gpus == num_gpus)
			return (int)i;
	return -1;
}

static void fill_gpu(struct gd_gpu *g, const struct frame_gpu *f)
{
	*g = (struct gd_gpu){.size = sizeof(*g),
		.known = f->total_bytes ? GD_GPU_KNOWN_MEMORY_TOTAL | GD_GPU_KNOWN_MEMORY_FREE : 0,
		.health = f->healthy ? GD_GPU_HEALTH_OK : GD_GPU_HEALTH_LOST,
		.vendor = GD_VENDOR_NVIDIA,
		.index = f->index,
		.vendor_index = f->index,
		.mig_index = -1,
		.numa_node = -1,
		.memory_total_bytes = f->total_bytes,
		.memory_free_bytes = f->free_bytes};
	if (f->utilization_known) {
		g->known |= GD_GPU_KNOWN_UTILIZATION;
		g->utilization_percent = f->utilization;
	}
	snprintf(g->uuid, sizeof(g->uuid), "%s", f->uuid);
	snprintf(g->name, sizeof(g->name), "%s", f->name);
	g->known |= (*g->uuid ? GD_GPU_KNOWN_UUID : 0) | (*g->name ? GD_GPU_KNOWN_NAME : 0);
}

int cluster_nodes_ready(
	struct cluster_nodes *n, const struct coordinator_action *ready, uint64_t slurm_job, int64_t now_ms)
{
	int i = cluster_nodes_find(n, ready->pilot);
	if (i < 0)
		i = free_node(n, ready->num_gpus);
	if (i < 0)
		i = add_node(n, ready->num_gpus);
	if (i < 0)
		return i;
	struct cluster_node *node = &n->nodes[i];
	node->gone = false;
	node->slurm_job = slurm_job;
	snprintf(node->pilot, sizeof(node->pilot), "%s", ready->pilot);
	for (size_t g = 0; g < node->num_gpus && g < ready->num_gpus; g++)
		fill_gpu(&n->gpus[node->first_gpu + g], &ready->gpus[g]);
	struct ledger_node *l = &n->ledger[i];
	*l = (struct ledger_node){.usable = true,
		.cpus = ready->cpus,
		.host_bytes = ready->host_bytes,
		.end_ms = ready->remaining_ms < 0 ? 0 : now_ms + ready->remaining_ms};
	snprintf(l->name, sizeof(l->name), "%s", ready->node);
	return i;
}

void cluster_nodes_away(struct cluster_nodes *n, const char *pilot, bool gone)
{
	int i = cluster_nodes_find(n, pilot);
	if (i < 0)
		return;
	n->ledger[i].usable = false;
	n->nodes[i].gone = gone;
}

int cluster_nodes_tell(const struct cluster_nodes *n, struct scheduler *s, uint64_t now_ns)
{
	int r = scheduler_set_nodes(s, n->ledger, n->count, n->gpu_nodes, n->num_gpus);
	return r < 0 ? r : scheduler_sample(s, now_ns, n->gpu_list, n->num_gpus);
}
