/* SPDX-License-Identifier: MIT */
/*
 * The jobs of a pilot on its node, run by the same nursery and keepers as on one machine (queue/keeper).
 *
 * Keepers write to a journal, but a pilot must not write to the journal of the queue. So the pilot has its own journal,
 * in a directory of the node that is removed at the end, and reads `start` and `end` of each attempt from there.
 * Environments are copied from the queue's folder, once for each distinct one. Logs go to the directory in the
 * order, on the shared file system, with the name that the coordinator has written into `start` (log_name.h).
 *
 * An order is the message to a keeper (keeper_messages.h): struct keeper_order and its payload, without GPUs. The pilot
 * adds the GPUs, the variables that bind the job to them, and GPUQ_NODE. Variables of Slurm and PMI are not passed on:
 * an srun inside a job would start processes that do not end with the pilot.
 */
#ifndef SLURM_NODE_JOBS_H
#define SLURM_NODE_JOBS_H

#include "gpu_dispatch.h"
#include "slurm/pilot_core.h"

struct loop;
struct node_jobs;

struct node_jobs_ops {
	void (*started)(void *context, struct attempt_id id, int64_t pid);
	/* The attempt did not run at all. */
	void (*not_started)(void *context, struct attempt_id id, const char *words);
	/* No process of the attempt is left. */
	void (*exited)(void *context, const struct pilot_exit *e);
};

struct node_jobs_options {
	struct loop *loop;
	const char *queue_dir; /* absolute: the folder next to the queue's journal */
	const char *node;
	uint64_t slurm_job;
	const uint8_t *secret; /* of the queue */
	const struct node_jobs_ops *ops;
	void *context;
};

/*
 * Forks the nursery, which dies with this process, as do keepers and jobs: call it in a process that has one thread.
 * Removes SLURM_*, SLURMD_* and PMI* from the environment of this process.
 */
int node_jobs_create(const struct node_jobs_options *options, struct node_jobs **ret, struct gd_error *err);
/* Kills the remaining processes and removes the node's journal. */
void node_jobs_destroy(struct node_jobs *n);

/* Starts an attempt on these GPUs; `started` or `not_started` is called from the loop, even if this fails. */
void node_jobs_begin(struct node_jobs *n, const struct frame_grant *grant, const struct gd_gpu *const *gpus);
/* Ends an attempt if it is running; `exited` is called afterwards. */
void node_jobs_stop(struct node_jobs *n, struct attempt_id id, enum cancel_mode mode);
void node_jobs_stop_all(struct node_jobs *n);

/* A new sample of the GPUs: how much the jobs use of them. */
void node_jobs_sample(struct node_jobs *n, const struct gd_gpu_list *gpus);

#endif
