/* SPDX-License-Identifier: MIT */
/*
 * Hooks of ends that no keeper has written: a job that failed because of another one, was
 * cancelled while it waited, or lost its keeper. A keeper runs them, a few at a time.
 */
#ifndef QUEUE_RUNNER_RUNNER_HOOKS_H
#define QUEUE_RUNNER_RUNNER_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

struct job;
struct runner;
struct runner_keeper;

void runner_hook_plan(struct runner *r, struct job *job);
bool runner_hook_is_planned(const struct runner *r, uint64_t id);
/* Hands out the hooks that are due. */
void runner_hooks_run(struct runner *r);
/* The keeper lives: its hook is no longer due. */
void runner_hook_taken(struct runner_keeper *k);
/* The keeper is gone and was never seen to live: its hook is due again. */
void runner_hook_again(struct runner_keeper *k);
void runner_hooks_close(struct runner *r);

#endif
