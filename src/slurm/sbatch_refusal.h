/* SPDX-License-Identifier: MIT */
/*
 * Interprets what sbatch prints when it submits nothing: whether another try can succeed, the message for the user, and
 * what the user can do.
 *
 * sbatch exits with 1 both if slurmctld refused the job and if it could not be reached or did not answer. Only messages
 * about a decision count as a refusal; "Socket timed out" may mean that the job was accepted.
 */
#ifndef SLURM_SBATCH_REFUSAL_H
#define SLURM_SBATCH_REFUSAL_H

#include <stdbool.h>
#include <stddef.h>

enum sbatch_refusal {
	SBATCH_UNCERTAIN,       /* not known to be a refusal: Slurm may have the job */
	SBATCH_REFUSES_NOW,     /* a limit on the number of jobs, a partition that is down: it may work later */
	SBATCH_REFUSES,         /* for a reason that is rarely temporary */
	SBATCH_REFUSES_FINALLY, /* until the options or the configuration of Slurm change */
};

/* err: the whole standard error of sbatch. */
enum sbatch_refusal sbatch_refusal_classify(const char *err);
/* The lines of sbatch's standard error in one line, without its prefixes. */
void sbatch_refusal_words(const char *err, char *ret, size_t size);
/* What to do about it; err: standard error or sbatch_refusal_words(). */
const char *sbatch_refusal_advice(const char *err);

/* Slurm accepted the job, but a job that is pending for this reason never starts unless its options change. */
bool sbatch_refusal_is_in_reason(const char *reason);

#endif
