/* SPDX-License-Identifier: MIT */
/*
 * Deliberate defects that test the tests: the simulator and the chaos tests must catch each of them.
 *
 * They exist only in programs that are compiled with -DSLURM_MUTANTS; everywhere else slurm_mutant_is() is a constant.
 */
#ifndef SLURM_MUTANT_H
#define SLURM_MUTANT_H

#include <stdbool.h>

enum slurm_mutant {
	MUTANT_NONE = 0,
	MUTANT_NO_WAIT, /* a silent pilot is considered dead at once */
	MUTANT_NO_KILL, /* the end of the lease kills nothing */
	MUTANT_NO_SYNC, /* grants are sent before `start` is synced */
	MUTANT_NOT_R,   /* a Slurm job that is not listed as running is considered dead */
	MUTANT_COUNT,
};

#ifdef SLURM_MUTANTS
extern enum slurm_mutant slurm_mutant;
static inline bool slurm_mutant_is(enum slurm_mutant mutant)
{
	return slurm_mutant == mutant;
}
#else
static inline bool slurm_mutant_is(enum slurm_mutant mutant)
{
	(void)mutant;
	return false;
}
#endif

#endif
