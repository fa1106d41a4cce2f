/* SPDX-License-Identifier: MIT */
/*
 * What a job of a pilot uses of its GPUs, from samples of the driver: its peak memory, and the energy if it has the
 * GPUs to itself. Both are reported to its keeper, as a runner does, and the keeper writes them into the end of the
 * attempt.
 */
#ifndef SLURM_NODE_USAGE_H
#define SLURM_NODE_USAGE_H

#include "base/machine.h"
#include "queue/keeper/keeper_messages.h"
#include "queue/runner/energy_meter.h"
#include "queue/schedule/gpu_users.h"

/* {0} measures nothing. */
struct node_usage {
	const struct gd_gpu **gpus; /* as they were at the start; borrowed */
	size_t num_gpus;
	struct gpu_user user; /* its root is the keeper; 0: not known yet */
	struct energy_meter energy;
	uint64_t peak_bytes; /* on one GPU; 0: not known */
	int64_t told_peak_mb, told_span_ms;
};

/* If out of memory, nothing is measured. */
void node_usage_begin(struct node_usage *u, const struct gd_gpu *const *gpus, size_t num_gpus);
void node_usage_finish(struct node_usage *u);
/* The process with this PID is the first one of the job. */
void node_usage_started(struct node_usage *u, int64_t pid);
/* Two jobs that share a GPU: the energy of neither is measured. */
void node_usage_compare(struct node_usage *a, struct node_usage *b);
/* Adds a sample. user.pids is current (gpu_users_find()). */
void node_usage_sample(struct node_usage *u, const struct gd_gpu_list *now, const struct machine *here);
/* Fills in KEEPER_ORDER_SEEN without the id. False: nothing new. */
bool node_usage_tell(struct node_usage *u, struct keeper_order *ret);

#endif
