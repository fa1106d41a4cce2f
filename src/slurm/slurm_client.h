/* SPDX-License-Identifier: MIT */
/*
 * The coordinator's interface to Slurm: submits pilots, lists jobs and nodes, cancels. Runs one command at a time, each
 * in its own process with a time limit (slurm_command.h); other requests are queued. Nothing here blocks.
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
	 * result 0: `slurm_job` is its id. -ENOTSUP, -EINVAL, -EAGAIN: sbatch refused it and nothing was submitted;
	 * `words`: the reason. Other: unknown whether Slurm has the job. See submission_submitted().
	 */
	void (*submitted)(void *context, const char *name, int result, uint64_t slurm_job, const char *words);
	/* listing->ok: whether it succeeded; begun_ns: when its first command was started, CLOCK_MONOTONIC. */
	void (*listed)(void *context, uint64_t begun_ns, const struct slurm_listing *listing, const char *words);
};

struct slurm_client_options {
	struct loop *loop;
	const char *prefix; /* of the names of our jobs; it is copied */
	int64_t timeout_ms; /* of one command; 0: 30 s */
	const struct slurm_client_ops *ops;
	void *context;
};

int slurm_client_create(const struct slurm_client_options *options, struct slurm_client **ret);
/* Kills the running command; no more callbacks follow. */
void slurm_client_destroy(struct slurm_client *c);

/*
 * sbatch OPTIONS… --parsable --no-requeue --nodes=1 --ntasks=1 --job-name=NAME --output=OUTPUT --open-mode=append
 * --wrap=SCRIPT. options: the user's options, split into words as a shell does; ours come after them and override them.
 * Returns 0, or -ENOMEM or -EINVAL (an unclosed quotation mark), after which no callback follows.
 */
int slurm_client_submit(
	struct slurm_client *c, const char *name, const char *options, const char *output, const char *script);
/* Requests a listing, unless one is already queued and not started yet. */
int slurm_client_list(struct slurm_client *c);
/* Best effort: a later listing shows the result. */
int slurm_client_cancel(struct slurm_client *c, uint64_t slurm_job);

#endif
