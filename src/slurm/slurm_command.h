/* SPDX-License-Identifier: MIT */
/*
 * A command of Slurm as a process of its own, with a time limit: slurmctld may hang, and so may the file system that
 * the commands are on. Nothing here waits.
 *
 * The commands see no settings that would change what they print: their language is C, their time zone UTC, and
 * SQUEUE_*, SINFO_* and SLURM_TIME_FORMAT are not set.
 */
#ifndef SLURM_SLURM_COMMAND_H
#define SLURM_SLURM_COMMAND_H

#include <stddef.h>
#include <stdint.h>

struct loop;
struct slurm_command;

/* More than this no command prints; then it has failed with -EFBIG. */
#define SLURM_COMMAND_OUTPUT_MAX ((size_t)32 << 20)

/*
 * result: 0 only if the command exited with 0; -ECHILD: it exited otherwise, or a signal ended it; -ETIMEDOUT; -EFBIG;
 * -ENOENT and the like: it could not be executed. out is what it printed, err the first words that it complained with;
 * both are NUL-terminated and valid during the call.
 */
typedef void slurm_command_fn(void *context, int result, const char *out, size_t size, const char *err);

/* fn is called once, from the loop, unless slurm_command_cancel() comes first. */
int slurm_command_start(struct loop *l, const char *const *argv, int64_t timeout_ms, slurm_command_fn *fn,
	void *context, struct slurm_command **ret);
/* Kills the command; fn is not called. The loop reaps it, so a loop that is destroyed at once leaks it. NULL is fine.
 */
void slurm_command_cancel(struct slurm_command *c);

#endif
