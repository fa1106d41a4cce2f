/* SPDX-License-Identifier: MIT */
/*
 * Decisions as they are made, for --verbose and $GPUQ_DEBUG: on standard error, a line each, "gpuq: debug: …".
 *
 * --verbose is not put into the environment, which jobs inherit.
 */
#ifndef CLI_DEBUG_H
#define CLI_DEBUG_H

#include <stdbool.h>

#include "gpu_dispatch.h"

void debug_turn_on(void);
bool debug_is_on(void);
/* Nothing where it is off. */
void debug_say(const char *format, ...) GD_PRINTF(1, 2);

#endif
