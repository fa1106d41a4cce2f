/* SPDX-License-Identifier: MIT */
/* gpuq launch --dry-run. */
#ifndef CLI_LAUNCH_DRY_RUN_H
#define CLI_LAUNCH_DRY_RUN_H

#include <stdbool.h>

#include "gpu_dispatch_launch.h"

/* Prints the files found, their distribution over the GPUs, and the estimated time. gpu_name: shown for every GPU;
 * NULL: each GPU's own name. */
int launch_dry_run(
	struct gd_launcher *l, const struct gd_launch_options *o, const char *gpu_name, bool (*stopped)(void));

#endif
