/* SPDX-License-Identifier: MIT */
/* A keeper inside `gpuq exec`; see lease.h. */
#ifndef QUEUE_KEEPER_KEEPER_LEASE_H
#define QUEUE_KEEPER_KEEPER_LEASE_H

#include <stdbool.h>

#include "queue/keeper/attempt.h"
#include "queue/keeper/lease.h"
#include "queue/keeper/nursery.h"

struct keeper;

struct keeper_lease {
	const struct attempt_front *front;
	int fd;    /* socket to the front; -1: the front is gone */
	bool over; /* the command has run */
};

/* The main function of the process; does not return. */
_Noreturn void keeper_lease_main(const struct nursery_options *options, const struct attempt_front *front, int fd);

/* Whether the keeper may start its job now. It gets only one order, because the job's `add` names this keeper. */
bool keeper_lease_may_start(const struct keeper *k);
/* Handles a message from the front, or its disappearance. */
void keeper_lease_on_front(struct keeper *k);
/* After SIGCHLD: tells the front if the command was stopped. Does nothing if this is not a lease. */
void keeper_lease_look_for_stop(struct keeper *k);
/* The command is about to be started, runs, has ended. */
void keeper_lease_starting(struct keeper *k);
void keeper_lease_started(struct keeper *k);
void keeper_lease_ended(struct keeper *k, const char *reason);

#endif
