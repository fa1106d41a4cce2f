/* SPDX-License-Identifier: MIT */
/*
 * Slurm as the coordinator asks it: submits pilots, lists jobs and nodes, cancels. One command at a time, each in a
 * process of its own with a time limit (slurm_command.h); requests wait for their turn. Nothing here blocks.
 */
#ifndef SLURM_SLURM_CLIENT_H
#define SLURM_SLURM_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "gpu_dispatch.h"
#include "slurm/listing.h"

struct loop;
struct slurm_client;

struct slurm_client_ops {
	/*
	 * result 0: `slurm_job` is its id. -EINVAL: sbatch refused it and nothing was submitted: `words`. Any other: it
	 * is not known whether Slurm has it (submission.h).
	 */
	void (*submitted)(void *context, const char *name, int result, uint64_t slurm_job, const char *words);
	/* listing->ok says whether it succeeded; begun_ns: when its first command was started, CLOCK_MONOTONIC. */
	void (*listed)(void *context, uint64_t begun_ns, const struct slurm_listing *listing, const char *words);
};

struct slurm_client_options {
	struct loop *loop;
	const char *prefix; /* of the names of our jobs */
	int64_t timeout_ms; /* of one command; 0: 30 s */
	const struct slurm_client_ops *ops;
	void *context;
};

int slurm_client_create(const struct slurm_client_options *options, struct slurm_client **ret);
/* Kills the command that runs; nothing more is called. */
void slurm_client_destroy(struct slurm_client *c);

/*
 * sbatch --parsable --no-requeue -N1 -n1 --job-name=NAME --output=OUTPUT OPTIONS… SCRIPT. options: those of the user,
 * words as a shell reads them; ours come behind them, so that they count. 0 or -ENOMEM, -EINVAL (an open quotation
 * mark): then no answer follows.
 */
int slurm_client_submit(
	struct slurm_client *c, const char *name, const char *options, const char *output, const char *script);
/* Asks for a listing, unless one waits already: that one has not begun yet. */
int slurm_client_list(struct slurm_client *c);
/* Best effort: a later listing tells what became of it. */
int slurm_client_cancel(struct slurm_client *c, uint64_t slurm_job);

#endif
