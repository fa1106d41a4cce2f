/* SPDX-License-Identifier: MIT */
/*
 * Runs a Slurm command as a separate process, with a time limit: slurmctld may hang, and so may the file system that
 * contains the commands. Nothing here blocks.
 *
 * Settings that change the output of the commands are removed: their language is C, their time zone UTC, and
 * SQUEUE_*, SINFO_* and SLURM_TIME_FORMAT are not set.
 */
#ifndef SLURM_SLURM_COMMAND_H
#define SLURM_SLURM_COMMAND_H

#include <stddef.h>
#include <stdint.h>

struct loop;
struct slurm_command;

/* A command that prints more than this fails with -EFBIG. */
#define SLURM_COMMAND_OUTPUT_MAX ((size_t)32 << 20)

/*
 * result: 0 only if the command exited with 0; -ECHILD: another exit code, or killed by a signal; -ETIMEDOUT; -EFBIG;
 * -ENOENT and similar: it could not be executed. out is its standard output, err the start of its standard error; both
 * are NUL-terminated and valid during the call.
 */
typedef void slurm_command_fn(void *context, int result, const char *out, size_t size, const char *err);

/* fn is called once, from the loop, unless slurm_command_cancel() comes first. */
int slurm_command_start(struct loop *l, const char *const *argv, int64_t timeout_ms, slurm_command_fn *fn,
	void *context, struct slurm_command **ret);
/* Kills the command; fn is not called. The loop reaps the command, so destroying the loop at once leaks it. NULL is
 * allowed.
 */
void slurm_command_cancel(struct slurm_command *c);

#endif
