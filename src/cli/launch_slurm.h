/* SPDX-License-Identifier: MIT */
/*
 * `gpuq launch --slurm`: a launch on the GPUs of a cluster.
 *
 * The launch has a queue of its own in OUTPUT/launch.slurm, with one job per worker, which a coordinator runs as
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
	/* Of launch_slurm_check(): */
	uint64_t silence_ms, lease_ms;
	size_t workers; /* at most: one for each GPU */
	char gpus[24];  /* as many simulated GPUs, for a dry run */
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
	int exit_code; /* of a run that cannot continue; 0: it can */
};

void launch_slurm_init(struct launch_slurm *s, const struct launch_slurm_options *options);
/*
 * Call from time to time: prints the messages of the coordinator, and starts it again if it was killed. True: no worker
 * will come anymore, and the user was told why; stop the run.
 */
bool launch_slurm_look(struct launch_slurm *s);
/* Ends the workers that are left, and waits for the coordinator. */
void launch_slurm_end(struct launch_slurm *s);

/* ---- launch_slurm_process.c ---- */

/* launch_slurm.c: prints the new lines of the coordinator. */
void launch_slurm_say(struct launch_slurm *s);
/* Starts a coordinator of the queue. commands: the file with new jobs; NULL: only ends the jobs that are there. */
int launch_slurm_start(struct launch_slurm *s, const char *commands, struct gd_error *err);
/* Waits up to `ms` for the coordinator to end. True: there is none anymore. */
bool launch_slurm_wait(struct launch_slurm *s, int ms);
/* Makes the queue empty, once no worker of an earlier launch is alive. -EBUSY: one may be. */
int launch_slurm_prepare(const struct launch_slurm *s, struct gd_error *err);

#endif
