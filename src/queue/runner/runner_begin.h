/* SPDX-License-Identifier: MIT */
/*
 * Jobs with a begin time. A timer wakes the runner at the next begin time. Each tick also checks,
 * because the wall clock may be set, and the timer stops while the machine sleeps.
 */
#ifndef QUEUE_RUNNER_RUNNER_BEGIN_H
#define QUEUE_RUNNER_RUNNER_BEGIN_H

struct runner;

int runner_begin_open(struct runner *r);
/* Enqueues the jobs whose begin time has come. */
void runner_begin_look(struct runner *r);
/* Before the runner waits: sets the timer, and prints a message if there is nothing else to wait for. */
void runner_begin_plan(struct runner *r);

#endif
