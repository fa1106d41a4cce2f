/* SPDX-License-Identifier: MIT */
/*
 * Gets pilots from Slurm: executes the decisions of submission.h through slurm_client.h. All job names of a queue begin
 * with "gpuq-" and a part of the queue's id, so a listing contains the pilots of earlier coordinators, too.
 *
 * No pilot is submitted for jobs that fit no kind. Nothing here calls the core. `listed` and `release` are called from
 * the loop and from pilot_supply_step().
 */
#ifndef SLURM_PILOT_SUPPLY_H
#define SLURM_PILOT_SUPPLY_H

#include "gpu_dispatch.h"
#include "queue/journal/journal.h"
#include "queue/schedule/placement.h"
#include "slurm/coordinator_core.h"
#include "slurm/submission.h"

struct loop;
struct pilot_supply;

struct pilot_supply_ops {
	void (*listed)(void *context, const struct slurm_listing *listing); /* a listing that succeeded */
	void (*release)(void *context, const char *pilot);                  /* the pilot is idle and not needed */
	void (*say)(void *context, const char *words);
};

struct pilot_supply_options {
	struct loop *loop;
	const struct journal *journal;
	uint64_t epoch;
	const char *const *kinds; /* options of the user for sbatch; jobs get pilots of the first kind that fits them */
	size_t num_kinds;
	const char *program; /* gpuq-slurm, as nodes find it */
	unsigned max_nodes;  /* total of all kinds */
	unsigned give_up;    /* see submission.h */
	const struct pilot_supply_ops *ops;
	void *context;
};

int pilot_supply_create(const struct pilot_supply_options *options, struct pilot_supply **ret);
/* NULL is allowed. Kills a running Slurm command. */
void pilot_supply_destroy(struct pilot_supply *s);

/* ---- Demand: begin, then each waiting need, then the step ---- */

void pilot_supply_begin(struct pilot_supply *s);
/* Adds `num_jobs` waiting jobs with this need. */
void pilot_supply_need(struct pilot_supply *s, const struct placement_need *need, size_t num_jobs);
/* Submits, releases and cancels pilots as due. Returns the latest time for the next call. */
uint64_t pilot_supply_step(struct pilot_supply *s);
/* Jobs wait that no pilot will ever run; pilot_supply_words() gives the reason. As of the last step. */
bool pilot_supply_is_hopeless(const struct pilot_supply *s);

/* -EINVAL, with Slurm's reason and what to do: Slurm refuses the options of every kind permanently, and has never
 * accepted a pilot. Otherwise 0. */
int pilot_supply_check_refusal(const struct pilot_supply *s, struct gd_error *err);

/* COORDINATOR_LIST */
void pilot_supply_list(struct pilot_supply *s);
/* COORDINATOR_READY and COORDINATOR_GONE; -ENOMEM. */
int pilot_supply_joined(struct pilot_supply *s, uint64_t slurm_job, const struct coordinator_action *ready);
void pilot_supply_gone(struct pilot_supply *s, const struct coordinator_action *gone);
void pilot_supply_set_busy(struct pilot_supply *s, const char *pilot, size_t num_attempts);
/* While true, nothing is submitted, pending pilots are cancelled and idle ones released. Set to false when there is
 * work again. */
void pilot_supply_set_leaving(struct pilot_supply *s, bool leaving);
/* Why no pilot can run some jobs, and what the others wait for in Slurm, without a countdown. */
void pilot_supply_words(const struct pilot_supply *s, char *words, size_t room);
/* Number of pilots that are submitted and have not connected. */
size_t pilot_supply_num_pending(const struct pilot_supply *s);

#endif
