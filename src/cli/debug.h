/* SPDX-License-Identifier: MIT */
/*
 * Prints decisions as they are made, for --verbose and $GPUQ_DEBUG: one line each on standard error, "gpuq:
 * debug: …".
 *
 * --verbose is not put into the environment, because jobs inherit it.
 */
#ifndef CLI_DEBUG_H
#define CLI_DEBUG_H

#include <stdbool.h>

#include "gpu_dispatch.h"

void debug_turn_on(void);
bool debug_is_on(void);
/* Prints nothing if debugging is off. */
void debug_say(const char *format, ...) GD_PRINTF(1, 2);

#endif
