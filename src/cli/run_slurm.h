/* SPDX-License-Identifier: MIT */
/* gpuq run --slurm. */
#ifndef CLI_RUN_SLURM_H
#define CLI_RUN_SLURM_H

/* The whole command: argv[0] is "gpuq run". */
int run_slurm_main(int argc, char **argv);

#endif
