/* SPDX-License-Identifier: MIT */
/*
 * Maps pilots to nodes of the scheduler: the node number of each pilot and the positions of its GPUs.
 *
 * Numbers and positions do not change. Those of a pilot that is gone are reused for a later pilot with as many GPUs.
 */
#ifndef SLURM_CLUSTER_NODES_H
#define SLURM_CLUSTER_NODES_H

#include "gpu_dispatch.h"
#include "queue/schedule/scheduler.h"
#include "slurm/coordinator_core.h"

struct cluster_node {
	char pilot[FRAME_NAME_ROOM];
	uint64_t slurm_job;
	size_t first_gpu; /* position of its first GPU */
	size_t num_gpus;
	bool gone;
};

/* Start from {0}. */
struct cluster_nodes {
	struct cluster_node *nodes;
	struct ledger_node *ledger; /* one per node */
	size_t count, capacity, ledger_capacity;
	struct gd_gpu *gpus;
	int *gpu_nodes;                 /* one per GPU */
	const struct gd_gpu **gpu_list; /* one per GPU */
	size_t num_gpus, gpus_capacity, gpu_nodes_capacity, gpu_list_capacity;
};

void cluster_nodes_finish(struct cluster_nodes *n);

/* The number of a pilot that is not gone; -1: unknown pilot. */
int cluster_nodes_find(const struct cluster_nodes *n, const char *pilot);
/* Handles COORDINATOR_READY. Returns the number of the pilot, or -ENOMEM. now_ms: wall clock. */
int cluster_nodes_ready(
	struct cluster_nodes *n, const struct coordinator_action *ready, uint64_t slurm_job, int64_t now_ms);
/* Handles COORDINATOR_AWAY and COORDINATOR_GONE: the pilot takes no more jobs. */
void cluster_nodes_away(struct cluster_nodes *n, const char *pilot, bool gone);
/* Passes the nodes to the scheduler. Returns 0 or -ENOMEM. */
int cluster_nodes_tell(const struct cluster_nodes *n, struct scheduler *s, uint64_t now_ns);

#endif
