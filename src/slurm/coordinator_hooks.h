/* SPDX-License-Identifier: MIT */
/*
 * Hooks of jobs that ran on pilots, run on the coordinator's host by the same nursery and keepers as on one machine
 * (queue/keeper): a pilot runs none. A hook runs at least once for each end, HOOK_TRIES times at most.
 * A keeper outlives the coordinator; its lock tells the next one that the hook is being run.
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
/* Keepers go on with their hooks. NULL is fine. */
void coordinator_hooks_close(struct coordinator_hooks *h);

/* A job was cancelled while it waited, and has no hook of its own: makes that of the coordinator due. */
void coordinator_hooks_add(struct coordinator *c, const struct job *job);
/* For struct coordinator_journal_options; the context is the coordinator. */
void coordinator_hooks_failed(void *context, const struct job *job, const struct record *outcome);
/* Hands out hooks that nobody runs, a few at a time. */
void coordinator_hooks_run(struct coordinator *c);
/* Whether a hook that this host has to run is due or being run. */
bool coordinator_hooks_are_due(const struct coordinator *c);
/* When to call coordinator_hooks_run() again; 0: after the next event. */
uint64_t coordinator_hooks_wake_ns(const struct coordinator_hooks *h);
/* Of the nursery, which also forks syncers. */
int coordinator_hooks_nursery(const struct coordinator_hooks *h);

#endif
