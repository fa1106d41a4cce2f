/* SPDX-License-Identifier: MIT */
/*
 * `gpuq launch --slurm`: a launch on the GPUs of a cluster.
 *
 * The launch has its own queue in OUTPUT/launch.slurm, with one job per worker. A coordinator runs this queue, as
 * `gpuq run --slurm` does. The workers of the launcher's pool are proxies of these jobs (slurm/file_proxy.h).
 */
#ifndef CLI_LAUNCH_SLURM_H
#define CLI_LAUNCH_SLURM_H

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text.h"
#include "launch/remote.h"

#define LAUNCH_SLURM_KINDS 16

/* As typed; start from {0}. */
struct launch_slurm_options {
	const char *kinds[LAUNCH_SLURM_KINDS]; /* options of sbatch */
	size_t num_kinds;                      /* 0: no cluster */
	unsigned max_nodes;                    /* 0: not given */
	const char *silence, *lease, *address; /* or NULL */
	/* Set by launch_slurm_check(): */
	uint64_t silence_ms, lease_ms;
	size_t workers; /* maximum number: one for each GPU */
	char gpus[24];  /* the same number of simulated GPUs, for a dry run */
};

/* Checks the options before anything starts, except those of sbatch, which the coordinator checks. */
int launch_slurm_check(struct launch_slurm_options *o, struct gd_error *err);

struct launch_slurm {
	const struct launch_slurm_options *options;
	struct launch_remote remote; /* for launcher_set_remote() */
	char dir[PATH_MAX];          /* OUTPUT/launch.slurm */
	char program[PATH_MAX];      /* gpuq-slurm */
	char proxies[PATH_MAX];
	const char *proxy_argv[4];
	pid_t coordinator; /* 0: none */
	int log_fd;        /* its output, for reading; -1: none */
	struct text line;  /* an incomplete line of it */
	int restarts;
	bool refused;  /* the coordinator ended because Slurm refuses the options */
	int exit_code; /* exit code if the run cannot continue; otherwise 0 */
};

void launch_slurm_init(struct launch_slurm *s, const struct launch_slurm_options *options);
/*
 * Call periodically: prints new messages of the coordinator, and starts it again if it has ended. True: stop the run,
 * because no more workers can start; the reason has been printed.
 */
bool launch_slurm_look(struct launch_slurm *s);
/* Ends the remaining workers, and waits for the coordinator. */
void launch_slurm_end(struct launch_slurm *s);

/* ---- launch_slurm_process.c ---- */

/* launch_slurm.c: prints the new lines of the coordinator. */
void launch_slurm_say(struct launch_slurm *s);
/* Starts a coordinator of the queue. commands: the file with new jobs; NULL: it runs until the existing jobs have
 * ended. */
int launch_slurm_start(struct launch_slurm *s, const char *commands, struct gd_error *err);
/* Waits up to `ms` for the coordinator to end. True: no coordinator is left. */
bool launch_slurm_wait(struct launch_slurm *s, int ms);
/* Cancels the workers of an earlier launch, and empties the queue. -EBUSY: such a worker may be alive; try again. */
int launch_slurm_prepare(const struct launch_slurm *s, struct gd_error *err);

#endif
