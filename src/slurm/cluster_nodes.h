/* SPDX-License-Identifier: MIT */
/*
 * Pilots as the nodes of the scheduler: which number a pilot has there, and which positions its GPUs have.
 *
 * Numbers and positions stay. Those of a pilot that is gone are given to a later one with as many GPUs.
 */
#ifndef SLURM_CLUSTER_NODES_H
#define SLURM_CLUSTER_NODES_H

#include "gpu_dispatch.h"
#include "queue/schedule/scheduler.h"
#include "slurm/coordinator_core.h"

struct cluster_node {
	char pilot[FRAME_NAME_ROOM];
	uint64_t slurm_job;
	size_t first_gpu; /* its position */
	size_t num_gpus;
	bool gone;
};

/* Start from {0}. */
struct cluster_nodes {
	struct cluster_node *nodes;
	struct ledger_node *ledger; /* as many */
	size_t count, capacity, ledger_capacity;
	struct gd_gpu *gpus;
	int *gpu_nodes;                 /* as many */
	const struct gd_gpu **gpu_list; /* as many */
	size_t num_gpus, gpus_capacity, gpu_nodes_capacity, gpu_list_capacity;
};

void cluster_nodes_finish(struct cluster_nodes *n);

/* The number of a pilot that is not gone; -1: not known. */
int cluster_nodes_find(const struct cluster_nodes *n, const char *pilot);
/* COORDINATOR_READY: the number of the pilot, or -ENOMEM. now_ms: wall clock. */
int cluster_nodes_ready(
	struct cluster_nodes *n, const struct coordinator_action *ready, uint64_t slurm_job, int64_t now_ms);
/* COORDINATOR_AWAY and COORDINATOR_GONE: it takes no more jobs. */
void cluster_nodes_away(struct cluster_nodes *n, const char *pilot, bool gone);
/* Tells the scheduler: 0 or -ENOMEM. */
int cluster_nodes_tell(const struct cluster_nodes *n, struct scheduler *s, uint64_t now_ns);

#endif
