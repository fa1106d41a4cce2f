/* SPDX-License-Identifier: MIT */
/* Executes the scheduler's decisions: hands jobs to keepers. */
#ifndef QUEUE_RUNNER_RUNNER_PLACE_H
#define QUEUE_RUNNER_RUNNER_PLACE_H

#include <stdbool.h>

struct runner;

void runner_place(struct runner *r);
/* Whether max_failures is reached: no more jobs are started. */
bool runner_is_full(const struct runner *r);

#endif
