/* SPDX-License-Identifier: MIT */
/*
 * The agent of a pilot: connects to the coordinator, runs the jobs that it grants, and reports their ends, first to the
 * outbox. It executes the decisions of the pure core (pilot_core.h) and runs below the guard (guard.h), which holds the
 * lease.
 */
#ifndef SLURM_AGENT_H
#define SLURM_AGENT_H

#include <stdint.h>

/* Where the coordinator listens (address_file.h). */
#define AGENT_ADDRESS_FILE "slurm.address"

struct agent_options {
	const char *queue_dir; /* absolute: the folder next to the queue's journal */
	uint64_t slurm_job;
	const char *node;
	const char *gpus;  /* specification; NULL: the GPUs that Slurm granted */
	uint64_t until_ns; /* as in struct pilot_settings */
	uint64_t grace_ns;
	uint64_t join_ns;
};

/* For guard_run(): context is a struct agent_options. Returns the exit code of the process. */
int agent_main(void *context, int guard_fd);

#endif
