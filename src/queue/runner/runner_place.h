/* SPDX-License-Identifier: MIT */
/* Starts the waiting jobs for which there is room, in their order. */
#ifndef QUEUE_RUNNER_RUNNER_PLACE_H
#define QUEUE_RUNNER_RUNNER_PLACE_H

struct runner;

void runner_place(struct runner *r);

#endif
