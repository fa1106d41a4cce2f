/* SPDX-License-Identifier: MIT */
/* The command line of gpuq-launch. */
#ifndef CLI_LAUNCH_ARGUMENTS_H
#define CLI_LAUNCH_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/launch_slurm.h"
#include "cli/pool_arguments.h"
#include "gpu_dispatch_launch.h"

struct launch_arguments {
	struct gd_launch_options options;
	struct pool_arguments pool;
	struct launch_slurm_options slurm;
	const char *worker; /* NAME or FILE.so, or NULL */
	bool dry_run;
	bool list_workers;
	/* Memory that the options point to. */
	const char **patterns;
	size_t patterns_capacity;
};

/* Ends the program with a usage message if the arguments are invalid. */
void launch_arguments_parse(struct launch_arguments *a, int argc, char **argv);
void launch_arguments_finish(struct launch_arguments *a);

#endif
