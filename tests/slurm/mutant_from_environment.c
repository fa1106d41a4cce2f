/* SPDX-License-Identifier: MIT */
/* gpuq-slurm-mutant: gpuq-slurm with the defect that $GPUQ_SLURM_MUTANT names. Never installed. */
#include <stdlib.h>
#include <string.h>

#include "slurm/mutant.h"

enum slurm_mutant slurm_mutant;

__attribute__((constructor)) static void choose(void)
{
	static const char *const names[MUTANT_COUNT] = {[MUTANT_NO_WAIT] = "no-wait",
		[MUTANT_NO_KILL] = "no-kill",
		[MUTANT_NO_SYNC] = "no-sync",
		[MUTANT_NOT_R] = "not-r"};
	const char *name = getenv("GPUQ_SLURM_MUTANT");
	for (int i = 1; i < MUTANT_COUNT; i++)
		if (name && strcmp(name, names[i]) == 0)
			slurm_mutant = (enum slurm_mutant)i;
}
