/* SPDX-License-Identifier: MIT */
/*
 * The worker's side: setup, one task after another, cleanup. The same loop in
 * forked and in executed workers.
 */
#ifndef POOL_WORKER_H
#define POOL_WORKER_H

#include "gpu_dispatch.h"

/* Descriptors that a worker is given; executed ones get them as 3 and up, in this order. */
struct worker_fds {
	int inbox;
	int outbox;
	int socket; /* parcels, both ways */
	int event;  /* eventfd: wakes the pool's owner */
	int settings;
};

#define WORKER_FDS 5

#define WORKER_FIRST_FD 3
#define WORKER_ENV      "GD_WORKER" /* set to the protocol's version in executed workers */
#define WORKER_PROTOCOL "2"

#define WORKER_DEFAULT_BATCH 32 /* default batch size of process_batch */

/* Runs to the end; returns the exit status for _exit(). */
int worker_run(const struct gd_worker_ops *ops, const struct worker_fds *fds);

#endif
