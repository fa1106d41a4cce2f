/* SPDX-License-Identifier: MIT */
#include "queue/keeper/allocation.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

void allocation_get(char ret[ALLOCATION_TEXT])
{
	const char *id = getenv("SLURM_JOB_ID"), *restart = getenv("SLURM_RESTART_COUNT");
	uint64_t random;
	ret[0] = '\0';
	if (id && *id)
		snprintf(ret, ALLOCATION_TEXT, "slurm-%.30s.%.10s", id, restart && *restart ? restart : "0");
	else if (getpid() == 1 && getrandom(&random, sizeof(random), 0) == sizeof(random))
		snprintf(ret, ALLOCATION_TEXT, "init-%016llx",
			(unsigned long long)random); /* the allocation ends with this process */
}

bool allocation_is_variable(const char *entry)
{
	/* SLURM_CONF names the cluster, not a job in it. */
	return (strncmp(entry, "SLURM_", 6) == 0 && strncmp(entry, "SLURM_CONF=", 11) != 0) ||
	       strncmp(entry, "SLURMD_", 7) == 0 || strncmp(entry, "PMI_", 4) == 0 || strncmp(entry, "PMI2_", 5) == 0 ||
	       strncmp(entry, "PMIX_", 5) == 0;
}
