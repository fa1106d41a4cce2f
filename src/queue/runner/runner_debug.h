/* SPDX-License-Identifier: MIT */
/* Reports the runner's decisions in its output, only if options.verbose is set. */
#ifndef QUEUE_RUNNER_RUNNER_DEBUG_H
#define QUEUE_RUNNER_RUNNER_DEBUG_H

#include "gpu_dispatch.h"

struct runner;
struct scheduler_start;

void runner_debug(struct runner *r, const char *format, ...) GD_PRINTF(2, 3);
/* A job was handed to its keeper. */
void runner_debug_start(struct runner *r, const struct scheduler_start *start);
/* Why the first waiting jobs do not start; each reason is reported once. */
void runner_debug_waiting(struct runner *r);

#endif
