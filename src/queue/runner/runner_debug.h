/* SPDX-License-Identifier: MIT */
/* Decisions of the runner as they are made, among its lines: only if options.verbose is set. */
#ifndef QUEUE_RUNNER_RUNNER_DEBUG_H
#define QUEUE_RUNNER_RUNNER_DEBUG_H

#include "gpu_dispatch.h"

struct runner;
struct scheduler_start;

void runner_debug(struct runner *r, const char *format, ...) GD_PRINTF(2, 3);
/* A job was handed to its keeper. */
void runner_debug_start(struct runner *r, const struct scheduler_start *start);
/* Why the first jobs that wait do not start; a reason that has been told is not told again. */
void runner_debug_waiting(struct runner *r);

#endif
