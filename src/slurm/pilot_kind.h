/* SPDX-License-Identifier: MIT */
/*
 * What the pilots of one kind have for jobs. A kind is the options of one --slurm: they say some of it, and the first
 * pilot that greets shows the rest. Pure.
 */
#ifndef SLURM_PILOT_KIND_H
#define SLURM_PILOT_KIND_H

#include "queue/schedule/placement.h"
#include "slurm/coordinator_core.h"

/* Start from {0}; 0: not known, and then no reason against a job. */
struct pilot_kind {
	bool gpus_known;
	unsigned gpus;
	uint64_t gpu_bytes; /* of its largest GPU */
	unsigned cpus;
	uint64_t host_bytes;
	int64_t time_ms; /* from its first greeting to its end */
	bool learned;    /* from a pilot, not from options */
};

/* Reads options of sbatch: --gres, --gpus, --gpus-per-node, --time. Others, and what is not understood, are ignored. */
void pilot_kind_parse(struct pilot_kind *k, const char *options);
/* COORDINATOR_READY of a pilot of this kind. */
void pilot_kind_learn(struct pilot_kind *k, const struct coordinator_action *ready);

/* Whether an empty pilot takes such a job. If not, words: "8 GPUs each, a pilot has 4". */
bool pilot_kind_takes(const struct pilot_kind *k, const struct placement_need *need, char words[FRAME_WORDS_ROOM]);
/* How many such jobs an empty pilot runs at a time; 0: not known. */
unsigned pilot_kind_capacity(const struct pilot_kind *k, const struct placement_need *need);

#endif
