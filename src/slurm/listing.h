/* SPDX-License-Identifier: MIT */
/*
 * One listing from Slurm: its jobs and nodes, reduced to the facts that can serve as proof.
 *
 * A listing is made by the helper that runs Slurm's commands: BOOT_TIME of slurmctld, then jobs, then nodes, then
 * BOOT_TIME again. If a command fails, takes too long or prints something that cannot be parsed, the whole listing has
 * failed and is not passed on as an empty one.
 */
#ifndef SLURM_LISTING_H
#define SLURM_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "slurm/frame.h"

enum listed_state {
	LISTED_OTHER = 0, /* anything else: suspended, requeued, node failure, boot failure, an unknown word */
	LISTED_PENDING,
	LISTED_RUNNING,
	LISTED_COMPLETING, /* also a terminal state with the flag COMPLETING */
	LISTED_TERMINAL, /* COMPLETED, FAILED, CANCELLED, TIMEOUT, PREEMPTED, DEADLINE, OUT_OF_MEMORY, without any flag
			  */
};

/* The state as squeue and scontrol write it in long form: "RUNNING", "CANCELLED by 1000", "COMPLETING". */
enum listed_state listed_state_parse(const char *word);

struct listed_job {
	uint64_t slurm_job;
	char name[FRAME_NAME_ROOM];
	enum listed_state state;
	uint32_t restarts;             /* how many times Slurm relaunched it */
	char node[FRAME_NAME_ROOM];    /* "": none yet */
	char reason[FRAME_WORDS_ROOM]; /* of a pending job: "Resources", "QOSMaxGRESPerUser"…; or "" */
};

struct listed_node {
	char name[FRAME_NAME_ROOM];
	bool responding;         /* no NOT_RESPONDING, DOWN, UNKNOWN or POWER* in its state */
	int64_t boot_ms;         /* BootTime, by the node's wall clock; 0: unknown */
	int64_t slurmd_start_ms; /* SlurmdStartTime; 0: unknown */
};

struct slurm_listing {
	bool ok;                /* false: the listing failed, and the fields below are undefined */
	int64_t boot_before_ms; /* BOOT_TIME of slurmctld, before and after the rest was read; 0: unknown */
	int64_t boot_after_ms;
	bool cgroup; /* proctrack/cgroup: a job that left COMPLETING has no processes left */
	const struct listed_job
		*jobs; /* those of this queue, by name or by id; also finished ones that Slurm still knows */
	size_t num_jobs;
	const struct listed_node *nodes; /* at least those of the jobs above, and those of pilots that are away */
	size_t num_nodes;
};

const struct listed_job *listing_find_job(const struct slurm_listing *l, uint64_t slurm_job);
const struct listed_node *listing_find_node(const struct slurm_listing *l, const char *name);

#endif
