/* SPDX-License-Identifier: MIT */
/*
 * Pilots from Slurm: does what submission.h decides through slurm_client.h. All job names of a queue begin with
 * "gpuq-" and a part of the queue's id, whoever submitted them; so a listing has the pilots of earlier
 * coordinators, too.
 *
 * Nothing here calls the core. `listed` and `release` come from the loop and from pilot_supply_step().
 */
#ifndef SLURM_PILOT_SUPPLY_H
#define SLURM_PILOT_SUPPLY_H

#include "gpu_dispatch.h"
#include "queue/journal/journal.h"
#include "slurm/coordinator_core.h"
#include "slurm/submission.h"

struct loop;
struct pilot_supply;

struct pilot_supply_ops {
	void (*listed)(void *context, const struct slurm_listing *listing); /* a listing that succeeded */
	void (*release)(void *context, const char *pilot);                  /* it is idle and not needed */
	void (*say)(void *context, const char *words);
};

struct pilot_supply_options {
	struct loop *loop;
	const struct journal *journal;
	uint64_t epoch;
	const char *sbatch_options; /* of the user */
	const char *program;        /* gpuq-slurm, as nodes find it */
	unsigned max_nodes;
	const struct pilot_supply_ops *ops;
	void *context;
};

int pilot_supply_create(const struct pilot_supply_options *options, struct pilot_supply **ret);
/* NULL is fine. A command of Slurm that runs is killed. */
void pilot_supply_destroy(struct pilot_supply *s);

/* Submits, releases and cancels what is due; then when to call again, at the latest. */
uint64_t pilot_supply_step(struct pilot_supply *s, const struct submission_demand *demand);
/* COORDINATOR_LIST */
void pilot_supply_list(struct pilot_supply *s);
/* COORDINATOR_READY and COORDINATOR_GONE; -ENOMEM. */
int pilot_supply_joined(struct pilot_supply *s, uint64_t slurm_job, const char *pilot, size_t num_gpus);
void pilot_supply_gone(struct pilot_supply *s, const char *pilot, enum death_proof proof, const char *words);
void pilot_supply_set_busy(struct pilot_supply *s, const char *pilot, size_t num_attempts);
/* Nothing is submitted any more, and pending pilots are cancelled. */
void pilot_supply_leave(struct pilot_supply *s);
/* Pilots that are submitted and have not greeted. */
size_t pilot_supply_num_pending(const struct pilot_supply *s);

#endif
