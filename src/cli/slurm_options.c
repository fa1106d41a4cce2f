/* SPDX-License-Identifier: MIT */
#include "cli/slurm_options.h"

#include "queue/input/config.h"

const struct argp_option slurm_options[] = {
	{"slurm", SLURM_OPTION_FIRST + CONFIG_SLURM, "OPTIONS", 0, "Options for sbatch, as for 'gpuq run'", 1},
	{"max-nodes", SLURM_OPTION_FIRST + CONFIG_MAX_NODES, "N", 0,
		"Maximum number of nodes that 'gpuq run' would use (1)", 1},
	{"slurm-address", SLURM_OPTION_FIRST + CONFIG_SLURM_ADDRESS, "HOST", 0,
		"The address of this host, as for 'gpuq run'", 1},
	{"wait", SLURM_OPTION_WAIT, "TIME", 0, "How long to wait for the job to start (2m)", 1},
	{"json", SLURM_OPTION_JSON, 0, 0, "Print a JSON object with an array of findings", 1},
	{0},
};
