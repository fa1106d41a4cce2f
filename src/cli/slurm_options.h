/* SPDX-License-Identifier: MIT */
/* The options of gpuq slurm: gpuq-slurm parses them, gpuq completes them. */
#ifndef CLI_SLURM_OPTIONS_H
#define CLI_SLURM_OPTIONS_H

#include <argp.h>

/* Keys from SLURM_OPTION_FIRST on are SLURM_OPTION_FIRST plus an enum config_key. */
enum { SLURM_OPTION_JSON = 0x200, SLURM_OPTION_WAIT, SLURM_OPTION_FIRST };

extern const struct argp_option slurm_options[];

#endif
