/* SPDX-License-Identifier: MIT */
/*
 * Hooks of jobs that ran on pilots, run on the coordinator's host by the same nursery and keepers as on one machine
 * (queue/keeper). Pilots run no hooks. A hook runs at least once for each end, HOOK_TRIES times at most. A keeper
 * outlives the coordinator; its lock shows the next coordinator that the hook is running.
 */
#ifndef SLURM_COORDINATOR_HOOKS_H
#define SLURM_COORDINATOR_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu_dispatch.h"

struct coordinator;
struct coordinator_hooks;
struct job;
struct record;

/* Forks the nursery: call it while the process is small. */
int coordinator_hooks_open(struct coordinator *c, struct coordinator_hooks **ret, struct gd_error *err);
/* Keepers continue to run their hooks. NULL is allowed. */
void coordinator_hooks_close(struct coordinator_hooks *h);

/* Makes the coordinator's hook due for a job that was cancelled while it waited and has no hook of its own. */
void coordinator_hooks_add(struct coordinator *c, const struct job *job);
/* Callback of struct coordinator_journal_options; the context is the coordinator. */
void coordinator_hooks_failed(void *context, const struct job *job, const struct record *outcome);
/* Hands out due hooks that are not running, a few at a time. */
void coordinator_hooks_run(struct coordinator *c);
/* Whether a hook that this host has to run is due or being run. */
bool coordinator_hooks_are_due(const struct coordinator *c);
/* When to call coordinator_hooks_run() again; 0: after the next event. */
uint64_t coordinator_hooks_wake_ns(const struct coordinator_hooks *h);
/* The descriptor of the nursery, which also forks syncers. */
int coordinator_hooks_nursery(const struct coordinator_hooks *h);

#endif
