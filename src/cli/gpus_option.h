/* SPDX-License-Identifier: MIT */
/*
 * --gpus of `gpuq exec`, `shell` and `add`, where it is not needed: a runner has GPUs, and jobs ask for some of them.
 * People type it nevertheless. Simulated GPUs are taken as $GPUQ_GPUS is; for others the message says what to type.
 */
#ifndef CLI_GPUS_OPTION_H
#define CLI_GPUS_OPTION_H

#include <argp.h>
#include <stdbool.h>

void gpus_option_take(struct argp_state *state, const char *value);
/* Says, once, that an active runner has its GPUs already. active: false if a runner is started now. */
void gpus_option_settle(bool active);

#endif
