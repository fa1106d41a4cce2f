/* SPDX-License-Identifier: MIT */
/*
 * The resources of one kind of pilot. A kind is defined by the options of one --slurm, which give some of the values
 * until its first pilot connects. From then on they are the largest values of its pilots. No I/O.
 */
#ifndef SLURM_PILOT_KIND_H
#define SLURM_PILOT_KIND_H

#include "queue/schedule/placement.h"
#include "slurm/coordinator_core.h"

/* Start from {0}. 0: unknown; unknown values never exclude a job. */
struct pilot_kind {
	bool gpus_known;
	unsigned gpus;
	uint64_t gpu_bytes; /* of its largest GPU */
	unsigned cpus;
	uint64_t host_bytes;
	int64_t time_ms; /* from its first connection to its end */
	bool learned;    /* from a pilot, not from options */
};

/* Reads options of sbatch: --gres, --gpus, --gpus-per-node, --time. Other options and invalid values are ignored. */
void pilot_kind_parse(struct pilot_kind *k, const char *options);
/* Handles COORDINATOR_READY of a pilot of this kind. */
void pilot_kind_learn(struct pilot_kind *k, const struct coordinator_action *ready);

/* Whether an empty pilot can run such a job. If not, `words` is the reason: "a job needs 8 GPUs, a pilot has 4". */
bool pilot_kind_takes(const struct pilot_kind *k, const struct placement_need *need, char words[FRAME_WORDS_ROOM]);
/* How many such jobs an empty pilot runs at a time; 0: unknown. */
unsigned pilot_kind_capacity(const struct pilot_kind *k, const struct placement_need *need);

#endif
