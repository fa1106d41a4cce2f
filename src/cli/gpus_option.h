/* SPDX-License-Identifier: MIT */
/*
 * --gpus of `gpuq exec`, `shell` and `add`, where it is not needed: the runner selects GPUs, and jobs request some of
 * them. Users type it nevertheless. Simulated GPUs are accepted, as in $GPUQ_GPUS; for other values the message says
 * what to type.
 */
#ifndef CLI_GPUS_OPTION_H
#define CLI_GPUS_OPTION_H

#include <argp.h>
#include <stdbool.h>

void gpus_option_take(struct argp_state *state, const char *value);
/* Reports once that an active runner has already selected its GPUs. active: false if a runner is being started. */
void gpus_option_settle(bool active);

#endif
